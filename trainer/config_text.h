// A resolved configuration as text: what a run records of itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/config.h"

namespace spillway {

// Every value of every section, defaults included, in the keys and units of the YAML.
[[nodiscard]] nlohmann::ordered_json to_json(const Config& config);
// The same as YAML: load_config reads it back to an equal Config.
[[nodiscard]] std::string to_yaml(const Config& config);

}  // namespace spillway
