// A machine of device/hardware.h from a YAML file: configs/hardware/NAME.yaml.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/hardware.h"

namespace spillway {

// Every number of Hardware that is not called optional there must be in the file, with its mark and
// source:
//
//   hbm_gb_per_s: {value: 7930, mark: specification, source: "..."}
//   bf16_matmul: {mark: measured, source: "...", rows_m_n_k_tflops: [[4096, 4096, 4096, 1417], ...]}
//
// marks are measured, specification, computed and assumed; the name of a table's rows spells their
// columns, as does the head of each file that ships. `name` becomes the file's stem. Throws
// ConfigError naming file, line, key and what is legal; so also for rates above their peak.
// `figures`: "d2h_gb_per_s=400" puts an assumed value in place of the file's.
[[nodiscard]] Hardware load_hardware(const std::filesystem::path& path,
                                     const std::vector<std::string>& figures = {});

// Of configs/hardware/NAME.yaml, or a path (trainer/named_file.h).
[[nodiscard]] Hardware hardware_named(const std::string& name,
                                      const std::vector<std::string>& figures = {},
                                      const std::filesystem::path& beside = {});

}  // namespace spillway
