// Files that stand in every HTML report; assets.cc.in becomes their bytes in the program (CMakeLists.txt).
#pragma once

#include <string_view>

namespace spillway {

[[nodiscard]] std::string_view report_css();
[[nodiscard]] std::string_view report_js();
[[nodiscard]] std::string_view d3_js();  // D3 3.5, minified

}  // namespace spillway
