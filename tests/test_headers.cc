// Holds what tests precompile (CMakeLists.txt).
