// The passes, in order. Each is a named function; the verifier runs between them in debug builds and
// always at the end.
#include "trainer/compile.h"

#include <algorithm>

#include "offload/hide_latency.h"
#include "offload/late_free.h"
#include "offload/remat.h"
#include "offload/transfer.h"
#include "parallel/order.h"
#include "program/error.h"
#include "program/lower.h"
#include "program/sync.h"
#include "program/verify.h"

namespace spillway {
namespace {

template <typename... Thing>
void verify_in_debug([[maybe_unused]] const Thing&... thing) {
#ifndef NDEBUG
  verify(thing...);
#endif
}

std::vector<PolicyRow> policy_rows(const Model& model) {
  std::vector<PolicyRow> rows;
  for (int index : model.layer_programs) {
    const Program& layer = model.programs[index];
    const std::vector<TensorId> crossing = activations(layer);
    const auto layers = std::count_if(model.blocks.begin(), model.blocks.end(),
                                      [&](const Block& block) { return block.program == index; });
    auto crosses = [&](TensorId id) {
      return std::find(crossing.begin(), crossing.end(), id) != crossing.end();
    };
    auto add = [&](const std::vector<TensorId>& outputs) {
      const Tensor& first = layer.tensors[outputs[0]];
      PolicyRow row{layer.name, static_cast<int>(layers), first.name, 0, first.strategy,
                    layer.find(recomputed_name(first.name)) != kNoTensor};
      for (TensorId id : outputs) {
        row.bytes += layer.tensors[id].bytes();
        row.needed |= crosses(id);
      }
      rows.push_back(row);
    };
    add({layer.input});
    for (const Op& op : layer.forward) {
      const Tensor& first = layer.tensors[op.out[0]];
      if (first.strategy != Strategy::kUnset && !first.transient) add(op.out);
    }
  }
  return rows;
}

bool fits(const MemoryPlan& plan, const CompileOptions& options) {
  return plan.hbm.bytes <= options.hbm_bytes && plan.host.bytes <= options.host_bytes;
}

// Passes 9 and 10. Copies that start early hold memory: when the plan does not fit, they are placed
// again with less and less head start. What does not fit in any case is shown as it would run if it did.
Step place_and_plan(const Schedule& transferred, const CompileOptions& options,
                    const CostModel& cost) {
  Step step, first;
  for (double margin : {2.0, 1.25, 0.6, 0.0}) {
    step.schedule = transferred;
    if (options.latency_hiding) {
      hide_latency(step.schedule,
                   {.pipelined = options.pipelined,
                    .gather_ahead = options.gather_ahead,
                    .max_inflight_async = options.max_inflight_async,
                    .margin = margin},
                   cost);
      free_behind_collectives(step.schedule);
    }
    verify_in_debug(step.schedule);
    step.plan = plan_memory(step.schedule);
    if (!options.latency_hiding || fits(step.plan, options)) return step;
    if (margin == 2.0) first = step;
  }
  return options.allow_oversize ? first : step;
}

void finish(Step& step, const CompileOptions& options) {
  if (!options.allow_oversize) {
    check_fits(step.schedule, step.plan, options.hbm_bytes, options.host_bytes,
               options.device_name);
  }
  insert_sync(step.schedule, step.plan);
  verify(step.schedule);
  verify(step.schedule, step.plan);
  verify_sync(step.schedule, step.plan);
}

std::map<std::string, Layout> layouts_of(const Model& model, const Mesh& mesh) {
  std::map<std::string, Layout> layouts;
  for (const Block& block : model.blocks) {
    for (const Tensor& tensor : model.programs[block.program].tensors) {
      if (tensor.kind != TensorKind::kParam) continue;
      layouts.emplace(full_name(block, tensor), layout_of(tensor.shape, tensor.dims, mesh));
    }
  }
  return layouts;
}

// A device's share of what its tensor group computes: what every rank of it does again (keys of shared
// heads, routing) is not counted.
int64_t flops_per_device(const Model& model, const std::vector<SlotOrder>& order, const Mesh& mesh) {
  return model_flops(lower(model.programs, model.blocks, order)) / mesh.size(axis::kTensor);
}

// Nothing is kept for a backward, so nothing is offloaded.
Step compile_evaluation(const Model& model, const CompileOptions& options, const CostModel& cost) {
  Schedule schedule = lower(model.programs, model.blocks, evaluation_order(model.blocks));
  for (Buffer& buffer : schedule.buffers) buffer.offload = false;
  gather(schedule, options.mesh, options.gathering);
  Step step = place_and_plan(schedule, options, cost);
  finish(step, options);
  return step;
}

}  // namespace

Compiled compile(Model model, const CompileOptions& options, const CostModel& cost) {
  Compiled result;
  const std::vector<SlotOrder> order = training_order(model.blocks, options.micro_batches);
  // 1 build: done by the caller, without ranks or strategies.
  result.parameters = model.parameter_count();
  result.layouts = layouts_of(model, options.mesh);
  result.flops = flops_per_device(model, order, options.mesh);
  // 2 shard: local shapes; what ranks of a tensor or expert group say to each other are ops.
  if (options.mesh.ranks() > 1) {
    for (Program& program : model.programs) program = shard(program, options.mesh, options.experts);
  }
  // 3 resolve: every activation gets one strategy.
  std::vector<Program*> layers;
  for (int index : model.layer_programs) layers.push_back(&model.programs[index]);
  resolve(options.activation, layers);
  // 4 remat: what is recomputed no longer crosses from forward to backward.
  for (Program* layer : layers) *layer = remat(std::move(*layer));
  result.policy = policy_rows(model);
  // 5 order, 6 lower: slots of the step; all work on the compute stream, frees at last use.
  Schedule schedule = lower(model.programs, model.blocks, order);
  verify_in_debug(schedule);
  // 7 gather: shards of parameters are gathered for use, gradients are summed over ranks.
  gather(schedule, options.mesh, options.gathering);
  verify_in_debug(schedule);
  // 8 transfer: offloaded activations go to the host and come back.
  transfer(schedule);
  verify_in_debug(schedule);
  // 9 hide latency, 10 plan memory.
  result.train = place_and_plan(schedule, options, cost);
  // 11 insert sync, 12 verify.
  finish(result.train, options);

  if (options.evaluation) result.evaluate = compile_evaluation(model, options, cost);
  result.model = std::move(model);
  return result;
}

}  // namespace spillway
