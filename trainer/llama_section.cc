#include "trainer/llama_section.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace spillway {
namespace {

constexpr IntRange kSize{.min = 1, .max = int64_t{1} << 31};

enum class RopeType : uint8_t { kDefault, kLlama3 };
constexpr std::array<Spelling<RopeType>, 2> kRopeTypes{
    {{"default", RopeType::kDefault}, {"llama3", RopeType::kLlama3}}};

std::optional<RopeScaling> read_rope_scaling(YamlSection section) {
  const auto type = section.choice<RopeType>("rope_type", RopeType::kDefault, kRopeTypes);
  std::optional<RopeScaling> result;
  if (type == RopeType::kLlama3) {
    // All four are asked for: a forgotten one would change the model without a word.
    result = RopeScaling{
        .factor = section.real("factor", kRequired, {.min = 1}),
        .low_freq_factor = section.real("low_freq_factor", kRequired, kAboveZero),
        .high_freq_factor = section.real("high_freq_factor", kRequired, kAboveZero),
        .original_max_position_embeddings =
            section.integer("original_max_position_embeddings", kRequired, kSize),
    };
    if (result->high_freq_factor <= result->low_freq_factor) {
      section.fail("high_freq_factor",
                   fmt::format("is {}; must be above low_freq_factor, {}", result->high_freq_factor,
                               result->low_freq_factor));
    }
  }
  section.finish();
  return result;
}

void check_heads(const LlamaConfig& model, const YamlSection& section) {
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    section.fail("num_attention_heads",
                 fmt::format("is {}, not a multiple of num_key_value_heads, {}",
                             model.num_attention_heads, model.num_key_value_heads));
  }
  if (model.head_dim % 2 != 0) {
    section.fail("head_dim",
                 fmt::format("is {}; must be even: rotary embeddings turn pairs", model.head_dim));
  }
}

}  // namespace

LlamaConfig read_llama(YamlSection& section) {
  LlamaConfig model{};
  model.vocab_size = section.integer("vocab_size", kRequired, {.min = 1, .max = INT32_MAX});
  model.hidden_size = section.integer("hidden_size", kRequired, kSize);
  model.intermediate_size = section.integer("intermediate_size", kRequired, kSize);
  model.num_hidden_layers = section.integer("num_hidden_layers", kRequired, kSize);
  model.num_attention_heads = section.integer("num_attention_heads", kRequired, kSize);
  model.num_key_value_heads =
      section.integer("num_key_value_heads", model.num_attention_heads, kSize);
  if (!section.has("head_dim") && model.hidden_size % model.num_attention_heads != 0) {
    section.fail("hidden_size", fmt::format("is {}, not a multiple of num_attention_heads, {} "
                                            "(or give head_dim)",
                                            model.hidden_size, model.num_attention_heads));
  }
  model.head_dim =
      section.integer("head_dim", model.hidden_size / model.num_attention_heads, kSize);
  check_heads(model, section);

  model.rms_norm_eps = section.real("rms_norm_eps", model.rms_norm_eps, kAboveZero);
  model.rope_theta = section.real("rope_theta", model.rope_theta, kAboveZero);
  model.rope_scaling = read_rope_scaling(section.section("rope_scaling"));
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", model.tie_word_embeddings);
  model.initializer_range = section.real("initializer_range", model.initializer_range, kZeroOrMore);
  section.finish();
  return model;
}

}  // namespace spillway
