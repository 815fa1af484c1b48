// Files that ship below configs/, by name.
#pragma once

#include <filesystem>
#include <string>

namespace spillway {

// Files PREFIX NAME SUFFIX below configs/: {"hardware", "hardware/", ".yaml"}.
struct NamedFiles {
  const char* what;  // for messages
  const char* prefix;
  const char* suffix;
};

// Looked for in configs/ of the folder `beside` and of those above it, when it is given, of the current
// directory, of the program's folder, of those above it, and of share/spillway of all of these; a name with a '/' or ".yaml" is the path of a file. Throws ConfigError with
// the names there are.
[[nodiscard]] std::filesystem::path named_file(const NamedFiles& files, const std::string& name,
                                               const std::filesystem::path& beside = {});

}  // namespace spillway
