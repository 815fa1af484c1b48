// The `model:` section of a Llama, in the names of Hugging Face's config.json.
#pragma once

#include "model/llama.h"
#include "trainer/yaml_section.h"

namespace spillway {

// Reads and checks all keys but `family`, which the caller has read; then finishes the section.
[[nodiscard]] LlamaConfig read_llama(YamlSection& section);

}  // namespace spillway
