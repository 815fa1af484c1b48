// A model as the compiler sees it: Programs, the blocks that run them, and constant tables. Model
// code is single-device and straight-line: it knows no rank, stream or strategy.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/lower.h"
#include "program/program.h"

namespace spillway {

// Element types of the state a parameter has. With f32 compute and an f32 master they are one.
struct Precision {
  DType compute = DType::kF32;
  bool master = true;  // keep an f32 master copy when compute is bf16
  DType gradients = DType::kF32;
  DType moments = DType::kF32;
  bool fp8_products = false;  // of layers: e4m3 operands, e5m2 gradients; needs bf16 compute

  [[nodiscard]] bool separate_master() const { return compute == DType::kBF16 && master; }
};

// One micro-batch on one device: T = sequences * seq_len tokens.
struct BatchShape {
  int64_t sequences = 1;
  int64_t seq_len = 128;
  int64_t loss_chunk_tokens = 1024;  // logits exist for this many tokens at a time

  [[nodiscard]] int64_t tokens() const { return sequences * seq_len; }
};

struct OptimizerConfig {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;   // decoupled; not on one-dimensional parameters (norms)
  double max_grad_norm = 1.0;  // 0: no clipping
  double router_bias_rate = 0;  // per step, of MoE routers' correction bias; 0: it stays
};

struct Model {
  std::vector<Program> programs;
  std::vector<Block> blocks;               // in forward order
  std::vector<int> layer_programs;         // the Programs that activation policies speak of
  std::map<std::string, std::vector<float>> constants;  // by tensor name

  [[nodiscard]] int64_t parameter_count() const;  // of these Programs; a shared one counts once
};

// Names of step inputs and outputs that the training loop writes and reads.
namespace step_io {
inline constexpr const char* kTokens = "tokens";           // i32[T], one per micro-batch
inline constexpr const char* kTargets = "targets";         // i32[T], one per micro-batch; < 0: ignored
inline constexpr const char* kScalars = "scalars";         // f32[kStepScalarCount]
inline constexpr const char* kLoss = "loss";               // f32[1]
inline constexpr const char* kMtpLoss = "mtp_loss";  // f32[1], with multi-token prediction only
inline constexpr const char* kRouterLoss = "router_loss";  // f32[1], MoE with router losses only
inline constexpr const char* kExpertLoad = "mlp.gate.load";  // i32[E+1], one per MoE block
inline constexpr const char* kGradNormSq = "grad_norm_sq";  // f32[1]
}  // namespace step_io

// The state that the load of a MoE router moves, as Hugging Face names it within the block.
inline constexpr const char* kRouterBias = "mlp.gate.e_score_correction_bias";

// Adds an optimizer Program to every block that has parameters (model/adamw.cc).
void add_adamw(Model& model, const OptimizerConfig& optimizer, const Precision& precision);

// Marks the products of all layers but routers' with Attr::kFp8 (model/fp8.cc). Embedding and head stay.
void use_fp8_products(Model& model);

inline constexpr const char* kEmbeddingWeight = "model.embed_tokens.weight";
inline constexpr const char* kHeadWeight = "lm_head.weight";

// The embedding block, and the head block with its evaluation twin (model/ends.cc). `tied`: the head
// reads the embedding's weight.
struct EndsConfig {
  int64_t vocab_size, hidden_size;
  double rms_norm_eps;
  bool tie_word_embeddings;
  double initializer_range;
};
[[nodiscard]] Program embedding_program(const EndsConfig& config, const BatchShape& batch,
                                        const Precision& precision);
[[nodiscard]] Program head_program(const EndsConfig& config, const BatchShape& batch,
                                   const Precision& precision, bool training);

}  // namespace spillway
