// The `model:` section of a DeepSeek, in the names of Hugging Face's config.json.
#pragma once

#include "model/deepseek.h"
#include "trainer/yaml_section.h"

namespace spillway {

// Reads and checks all keys but `family`, which the caller has read; then finishes the section.
[[nodiscard]] DeepseekConfig read_deepseek(YamlSection& section);

}  // namespace spillway
