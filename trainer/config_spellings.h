// How a config spells its enumerations: read by load_config, written by to_json.
#pragma once

#include <array>

#include "trainer/config.h"
#include "trainer/yaml_section.h"

namespace spillway {

inline constexpr std::array<Spelling<ModelFamily>, 2> kModelFamilies{
    {{"llama", ModelFamily::kLlama}, {"deepseek", ModelFamily::kDeepseek}}};

inline constexpr std::array<Spelling<DType>, 2> kFloatTypes{
    {{"f32", DType::kF32}, {"bf16", DType::kBF16}}};

// With bf16 compute: a separate f32 master weight, or none.
inline constexpr std::array<Spelling<bool>, 2> kMasters{{{"f32", true}, {"none", false}}};

// Operands of the layers' matrix products: as compute has them, or narrowed.
inline constexpr std::array<Spelling<bool>, 2> kProducts{{{"compute", false}, {"fp8", true}}};

inline constexpr std::array<Spelling<Strategy>, 3> kStrategySpellings{
    {{"device", Strategy::kDevice}, {"remat", Strategy::kRemat}, {"offload", Strategy::kOffload}}};

inline constexpr std::array<Spelling<bool>, 2> kFsdpModes{{{"full", false}, {"optimizer", true}}};
inline constexpr std::array<Spelling<bool>, 2> kOverflows{{{"error", false}, {"drop", true}}};

inline constexpr std::array<Spelling<LrKind>, 4> kLrKinds{{{"constant", LrKind::kConstant},
                                                           {"linear", LrKind::kLinear},
                                                           {"cosine", LrKind::kCosine},
                                                           {"wsd", LrKind::kWsd}}};

inline constexpr std::array<Spelling<DataKind>, 3> kDataKinds{
    {{"text", DataKind::kText},
     {"tokens", DataKind::kTokens},
     {"synthetic", DataKind::kSynthetic}}};

}  // namespace spillway
