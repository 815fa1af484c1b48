#include "parallel/gather.h"

#include <map>
#include <set>
#include <utility>

#include "program/error.h"
#include "program/text.h"

namespace spillway {
namespace {

// The stretch of the step over which one whole buffer stands in for a part.
struct Span {
  TensorId part = kNoTensor, full = kNoTensor;
  int first = 0, last = 0;  // indices of instructions
};

class Gatherer {
 public:
  Gatherer(Schedule& schedule, const Mesh& mesh, const Gathering& gathering)
      : schedule_(schedule), mesh_(mesh), by_slot_(gathering.mode == Gathering::Mode::kFull),
        before_(schedule.instrs.size()), after_(schedule.instrs.size()) {}

  void run() {
    divide();
    find_last_gradients();
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) use_whole(static_cast<int>(i));
    for (const Span& span : spans_) is_gradient(span.part) ? reduce(span) : gather(span);
    sum_undivided_gradients();
    sum_step_outputs();
    sum_norm();
    assemble();
    check_updates();
  }

 private:
  [[nodiscard]] bool is_gradient(TensorId id) const {
    return schedule_.buffers[id].memory == MemoryClass::kGradient;
  }
  [[nodiscard]] Phase phase_of(int instr) const {
    return schedule_.slots[schedule_.instrs[instr].slot].phase;
  }
  // Whether it computes on whole parameters: not the optimizer, not a kFree.
  [[nodiscard]] bool computes(int instr) const {
    const Phase phase = phase_of(instr);
    return schedule_.instrs[instr].op.kind != OpKind::kFree && phase != Phase::kNorm &&
           phase != Phase::kUpdate;
  }

  void divide() {
    axes_.assign(schedule_.buffers.size(), 0);
    whole_.resize(schedule_.buffers.size());
    for (size_t id = 0; id < schedule_.buffers.size(); ++id) {
      Buffer& buffer = schedule_.buffers[id];
      const int parts = mesh_.size(buffer.shard_axes);
      if (parts > 1) {
        axes_[id] = buffer.shard_axes;
        const int64_t part = (element_count(buffer.shape) + parts - 1) / parts;
        whole_[id] = std::exchange(buffer.shape, {part});
      }
      buffer.shard_axes = 0;
    }
  }

  void find_last_gradients() {
    last_gradient_.assign(schedule_.buffers.size(), -1);
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      if (!computes(static_cast<int>(i))) continue;
      for (const Access& access : accesses(schedule_.instrs[i])) {
        if (is_gradient(access.buffer)) last_gradient_[access.buffer] = static_cast<int>(i);
      }
    }
  }

  // Instruction i gets whole buffers in place of parts.
  void use_whole(int i) {
    if (!computes(i)) return;
    Op& op = schedule_.instrs[i].op;
    for (TensorId& id : op.in) {
      if (is_divided(id)) id = whole_of(id, i).full;
    }
    for (size_t out = 0; out < op.out.size(); ++out) {
      if (!is_divided(op.out[out])) continue;
      const Span& span = whole_of(op.out[out], i);
      op.out[out] = span.full;
      if (span.first == i) op.accumulate[out] = false;  // what was there before is in the part
    }
  }

  [[nodiscard]] bool is_divided(TensorId id) const {
    return id < static_cast<TensorId>(axes_.size()) && axes_[id] != 0;
  }

  // The span of a use of `part`, begun here or before, and from now on including i.
  Span& whole_of(TensorId part, int i) {
    const int slot = schedule_.instrs[i].slot;
    const std::pair key{part, by_slot_ ? slot : 0};
    const auto [found, fresh] = span_of_.emplace(key, spans_.size());
    if (fresh) {
      Buffer full = schedule_.buffers[part];
      full.name = (by_slot_ ? schedule_.slots[slot].text() + "." : "") + full.name + "@full";
      full.shape = whole_[part];
      full.memory = is_gradient(part) ? MemoryClass::kGradient : MemoryClass::kGathered;
      full.persistent = false;
      spans_.push_back({part, static_cast<TensorId>(schedule_.buffers.size()), i, i});
      schedule_.buffers.push_back(std::move(full));
    }
    Span& span = spans_[found->second];
    span.last = i;
    return span;
  }

  void gather(const Span& span) {
    add(before_, span.first,
        collective(OpKind::kAllGather, span.part, span.full, axes_[span.part]));
    add(after_, span.last, {.kind = OpKind::kFree, .in = {span.full}});
  }

  void reduce(const Span& span) {
    Op op = collective(OpKind::kReduceScatter, span.full, span.part, axes_[span.part]);
    op.accumulate[0] = !reduced_.insert(span.part).second;
    add(after_, span.last, std::move(op));
    add(after_, span.last, {.kind = OpKind::kFree, .in = {span.full}});
    if (span.last == last_gradient_[span.part]) sum(after_, span.last, span.part, axis::kData);
  }

  void sum_undivided_gradients() {
    for (size_t id = 0; id < last_gradient_.size(); ++id) {
      if (last_gradient_[id] < 0 || axes_[id] != 0) continue;
      sum(after_, last_gradient_[id], static_cast<TensorId>(id), axis::kData);
    }
  }

  // The first write of a step to such a sum is a plain one, so what is summed here is this step's.
  void sum_step_outputs() {
    if (schedule_.instrs.empty()) return;
    std::vector<bool> written(axes_.size());
    int norm = -1;
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      if (norm < 0 && phase_of(static_cast<int>(i)) == Phase::kNorm) norm = static_cast<int>(i);
      if (!computes(static_cast<int>(i))) continue;
      for (TensorId id : schedule_.instrs[i].op.out) {
        if (schedule_.buffers[id].memory == MemoryClass::kStepIo) written[id] = true;
      }
    }
    for (size_t id = 0; id < written.size(); ++id) {
      if (!written[id]) continue;
      const int end = static_cast<int>(schedule_.instrs.size()) - 1;
      sum(norm < 0 ? after_ : before_, norm < 0 ? end : norm, static_cast<TensorId>(id),
          axis::kBatch);
    }
  }

  void sum_norm() {
    std::map<TensorId, int> last;
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      if (phase_of(static_cast<int>(i)) != Phase::kNorm) continue;
      for (TensorId id : schedule_.instrs[i].op.out) last[id] = static_cast<int>(i);
    }
    for (const auto& [id, instr] : last) {
      if (schedule_.buffers[id].memory == MemoryClass::kStepIo) {
        sum(after_, instr, id, axis::kShard);
      }
    }
  }

  // In place, over the ranks of `axes`, if there are others.
  void sum(std::vector<std::vector<Instr>>& list, int instr, TensorId id, uint8_t axes) {
    if (mesh_.size(axes) > 1) add(list, instr, collective(OpKind::kAllReduce, id, id, axes));
  }

  [[nodiscard]] Op collective(OpKind kind, TensorId in, TensorId out, uint8_t axes) const {
    return {.kind = kind, .in = {in}, .out = {out}, .accumulate = {false},
            .attrs = {{Attr::kAxes, static_cast<double>(axes)},
                      {Attr::kParts, static_cast<double>(mesh_.size(axes))}}};
  }

  void add(std::vector<std::vector<Instr>>& list, int instr, Op op) {
    list[instr].push_back({.slot = schedule_.instrs[instr].slot, .stream = Stream::kCompute,
                           .op = std::move(op), .waits = {}});
  }

  void assemble() {
    std::vector<Instr> instrs;
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      for (Instr& instr : before_[i]) instrs.push_back(std::move(instr));
      instrs.push_back(std::move(schedule_.instrs[i]));
      for (Instr& instr : after_[i]) instrs.push_back(std::move(instr));
    }
    schedule_.instrs = std::move(instrs);
  }

  void check_updates() const {
    for (const Instr& instr : schedule_.instrs) {
      if (instr.op.kind != OpKind::kAdamW) continue;
      const Buffer& gradient = schedule_.buffers[instr.op.in[0]];
      for (TensorId id : instr.op.out) {
        if (schedule_.buffers[id].shape == gradient.shape) continue;
        throw VerifyError(gradient.name + " and " + schedule_.buffers[id].name +
                          " are not divided alike: " + to_text(schedule_, instr));
      }
    }
  }

  Schedule& schedule_;
  const Mesh& mesh_;
  const bool by_slot_;
  std::vector<uint8_t> axes_;       // per buffer: what it is divided over; 0: nothing
  std::vector<Shape> whole_;        // per divided buffer: its shape before
  std::vector<int> last_gradient_;  // per gradient: its last use in backward
  std::vector<Span> spans_;         // in order of their first use
  std::map<std::pair<TensorId, int>, size_t> span_of_;  // (part, slot or 0) -> index in spans_
  std::set<TensorId> reduced_;                          // gradients whose part holds a value
  std::vector<std::vector<Instr>> before_, after_;      // what to add around each instruction
};

}  // namespace

void gather(Schedule& schedule, const Mesh& mesh, const Gathering& gathering) {
  Gatherer(schedule, mesh, gathering).run();
}

}  // namespace spillway
