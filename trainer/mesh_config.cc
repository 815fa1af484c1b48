#include "trainer/mesh_config.h"

#include <fmt/format.h>

#include "program/error.h"

namespace spillway {
namespace {

void check_divides(const char* what, int64_t count, const char* axis, int64_t parts) {
  if (count % parts == 0) return;
  throw ConfigError(fmt::format("{} ({}) cannot be split over parallel.{} ({}): it is not a multiple",
                                what, count, axis, parts));
}

void check_llama(const LlamaConfig& model, int tensor, int expert) {
  check_divides("model.num_attention_heads", model.num_attention_heads, "tensor", tensor);
  check_divides("model.intermediate_size", model.intermediate_size, "tensor", tensor);
  if (expert > 1) {
    throw ConfigError(fmt::format("parallel.expert is {}, but a llama model has no experts; use fsdp",
                                  expert));
  }
}

void check_deepseek(const DeepseekConfig& model, int tensor, int expert) {
  check_divides("model.num_attention_heads", model.num_attention_heads, "tensor", tensor);
  check_divides("model.intermediate_size", model.intermediate_size, "tensor", tensor);
  const bool any = has_experts(model, model.num_hidden_layers - 1) ||
                   model.first_k_dense_replace < model.num_hidden_layers ||
                   model.num_nextn_predict_layers > 0;
  if (!any) return;
  check_divides("model.moe_intermediate_size", model.moe_intermediate_size, "tensor", tensor);
  check_divides("model.n_routed_experts", model.n_routed_experts, "expert", expert);
}

}  // namespace

Mesh mesh_of(const Config& config, int ranks, int rank) {
  const bool llama = config.family == ModelFamily::kLlama;
  const Mesh mesh(config.parallel.mesh, ranks, rank, llama ? config.llama.num_key_value_heads : 0);
  const int tensor = mesh.size(axis::kTensor), expert = mesh.size(axis::kExpert);
  if (llama) check_llama(config.llama, tensor, expert);
  if (!llama) check_deepseek(config.deepseek, tensor, expert);
  check_divides("train.micro_batch x train.seq_len", config.train.micro_batch * config.train.seq_len,
                "tensor", tensor);
  return mesh;
}

Config on_mesh(Config config, const Mesh& mesh) {
  TrainConfig& train = config.train;
  const int64_t round = train.micro_batch * mesh.size(axis::kBatch);
  if (train.global_batch > 0) {
    if (train.global_batch % round != 0) {
      throw ConfigError(fmt::format(
          "train.global_batch ({}) is not a multiple of train.micro_batch ({}) x {} ranks that have "
          "sequences of their own",
          train.global_batch, train.micro_batch, mesh.size(axis::kBatch)));
    }
    train.accumulation = train.global_batch / round;
  }
  return config;
}

int ranks_of(const MeshConfig& config) {
  int64_t ranks = 1;
  for (int64_t size : {config.data, config.fsdp, config.tensor, config.expert}) {
    if (size > 0) ranks *= size;
  }
  return static_cast<int>(ranks);
}

}  // namespace spillway
