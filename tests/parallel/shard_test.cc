#include "parallel/shard.h"

#include <gmock/gmock.h>

#include "model/llama.h"
#include "program/text.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

Model tiny_llama_model() {
  LlamaConfig config{.vocab_size = 97, .hidden_size = 32, .intermediate_size = 48,
                     .num_hidden_layers = 1, .num_attention_heads = 4, .num_key_value_heads = 2,
                     .head_dim = 8};
  return build_llama(config, {.sequences = 1, .seq_len = 32, .loss_chunk_tokens = 32}, {});
}

const Program& program_named(const Model& model, const std::string& name) {
  for (const Program& program : model.programs) {
    if (program.name == name) return program;
  }
  throw std::runtime_error(name);
}

// A list without what ranks do alone.
std::vector<std::string> collectives(const Program& program, const std::vector<Op>& ops) {
  std::vector<std::string> lines;
  for (const Op& op : ops) {
    if (op.kind == OpKind::kAllGather || op.kind == OpKind::kReduceScatter) {
      lines.push_back(to_text(program, op));
    }
  }
  return lines;
}

TEST(Shard, ALayerGathersRowsBeforeAndScattersSumsAfterEachPairOfProducts) {
  const Model model = tiny_llama_model();
  const Mesh mesh({.data = 1, .tensor = 2}, 2, 0, 2);
  const Program layer = shard(program_named(model, "decoder_layer"), mesh, {});
  EXPECT_THAT(
      collectives(layer, layer.forward),
      ElementsAre("attention_norm.whole = all_gather(attention_norm) {axes=24, parts=2}",
                  "out_proj = reduce_scatter(out_proj.partial) {axes=24, parts=2}",
                  "mlp_norm.whole = all_gather(mlp_norm) {axes=24, parts=2}",
                  "mlpwo = reduce_scatter(mlpwo.partial) {axes=24, parts=2}"));
  EXPECT_THAT(
      collectives(layer, layer.backward),
      ElementsAre(
          "d.decoder_layer_output.whole = all_gather(d.decoder_layer_output) {axes=24, parts=2}",
          "d.mlp_norm = reduce_scatter(d.mlp_norm.partial) {axes=24, parts=2}",
          "d.decoder_layer_output.whole.2 = all_gather(d.decoder_layer_output) {axes=24, parts=2}",
          "d.attention_norm = reduce_scatter(d.attention_norm.partial) {axes=24, parts=2}"));
  EXPECT_EQ(layer.tensors[layer.input].shape, (Shape{16, 32}));
  EXPECT_EQ(layer.tensors[layer.find("query_proj")].shape, (Shape{32, 16}));
  EXPECT_TRUE(layer.tensors[layer.find("attention_norm.whole")].transient);
  EXPECT_TRUE(layer.tensors[layer.find("out_proj.partial")].transient);
  EXPECT_FALSE(layer.tensors[layer.find("out_proj")].transient);
}

TEST(Shard, NamesThatPoliciesKnowStayTheSame) {
  const Model model = tiny_llama_model();
  const Program& layer = program_named(model, "decoder_layer");
  const Program local = shard(layer, Mesh({.data = 1, .tensor = 4}, 4, 1, 2), {});
  auto names = [](const Program& program) {
    std::vector<std::string> list;
    for (TensorId id : nameable_values(program)) list.push_back(program.tensors[id].name);
    return list;
  };
  EXPECT_EQ(names(local), names(layer));
}

TEST(Shard, TheLastRankOfAPaddedVocabularyIgnoresWhatIsNotThere) {
  const Model model = tiny_llama_model();
  const Mesh mesh({.data = 1, .tensor = 4}, 4, 3, 2);
  const Program head = shard(program_named(model, "head_eval"), mesh, {});
  EXPECT_EQ(head.tensors[head.find("lm_head.weight")].shape, (Shape{25, 32}));
  std::vector<std::string> lines;
  for (const Op& op : head.forward) {
    if (op.kind == OpKind::kVocabStats) lines.push_back(to_text(head, op));
  }
  EXPECT_THAT(lines, ElementsAre("logits.0.stats = vocab_stats(logits.0, targets.0) {begin=75, "
                                 "end=97}"));
}

TEST(Shard, WhatNoDimDividesIsDividedOverAllAxes) {
  const Model model = tiny_llama_model();
  const Mesh mesh({.data = 1, .tensor = 4}, 4, 0, 2);
  const Program layer = shard(program_named(model, "decoder_layer"), mesh, {});
  auto axes = [&](const char* name) { return layer.tensors[layer.find(name)].shard_axes; };
  EXPECT_EQ(axes("input_layernorm.weight"), axis::kShard);
  EXPECT_EQ(axes("self_attn.q_proj.weight"), axis::kFsdp | axis::kExpert);
  EXPECT_EQ(axes("self_attn.k_proj.weight"),
            axis::kFsdp | axis::kExpert | axis::kTensorReplica);
  EXPECT_EQ(axes("self_attn.k_proj.weight.grad"), axes("self_attn.k_proj.weight"));
}

}  // namespace
}  // namespace spillway
