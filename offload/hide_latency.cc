#include "offload/hide_latency.h"

#include <algorithm>
#include <map>

#include "offload/placement.h"

namespace spillway {
namespace {

// What uses one link, and the time that the link has for it.
struct Traffic {
  std::vector<Late> lates;
  std::vector<Early> earlies;
  Timeline start;
  int window = 0;                        // slots
  std::map<TensorId, size_t> of_source;  // a source to be freed behind it -> index in lates
};

class LatencyHider {
 public:
  LatencyHider(Schedule& schedule, const LatencyHiding& options, const CostModel& cost)
      : schedule_(schedule), options_(options), cost_(cost) {
    copies_.window = options.pipelined ? 1 : 0;
    collectives_.window = options.gather_ahead;
  }

  void run() {
    take_apart();
    for (Traffic* traffic : {&copies_, &collectives_}) {
      find_windows(*traffic, slot_ends(), uses_by_buffer());
    }
    place();
    assemble();
  }

 private:
  // The instructions that stay where they are go to fixed_, the others to the traffic they are of.
  void take_apart() {
    double now = 0, collective = 0;
    for (Instr& instr : schedule_.instrs) {
      if (take_late(instr) || take_early(instr) || take_free(instr)) continue;
      copies_.start.push_back(now);
      collectives_.start.push_back(now - collective);
      const double seconds = cost_.seconds(schedule_, instr);
      now += seconds;
      if (is_collective(instr.op.kind)) {
        collective += seconds;  // nothing else moves between ranks meanwhile
        instr.stream = Stream::kComm;
      }
      fixed_.push_back(std::move(instr));
    }
    copies_.start.push_back(now);
    collectives_.start.push_back(now - collective);
  }

  [[nodiscard]] int here() const { return static_cast<int>(fixed_.size()); }
  [[nodiscard]] double estimate(const Instr& instr) const {
    return cost_.seconds(schedule_, instr) * options_.margin;
  }

  [[nodiscard]] bool sums_gradient(const Instr& instr) const {
    return (instr.op.kind == OpKind::kReduceScatter || instr.op.kind == OpKind::kAllReduce) &&
           schedule_.buffers[instr.op.out[0]].memory == MemoryClass::kGradient;
  }
  [[nodiscard]] bool gathers_parameter(const Instr& instr) const {
    return instr.op.kind == OpKind::kAllGather && schedule_.buffers[instr.op.in[0]].persistent;
  }

  bool take_late(Instr& instr) {
    const bool copy = is_copy_to_host(schedule_, instr);
    if (!copy && !sums_gradient(instr)) return false;
    Traffic& traffic = copy ? copies_ : collectives_;
    instr.stream = copy ? Stream::kD2h : Stream::kComm;
    const double seconds = estimate(instr);
    const TensorId source = instr.op.in[0], result = instr.op.out[0];
    if (!traffic.lates.empty()) {
      Late& last = traffic.lates.back();  // a sum over fsdp, then over data
      if (last.definition == here() - 1 && last.instrs.back().op.out[0] == source) {
        last.instrs.push_back(std::move(instr));
        last.more_seconds += seconds;
        return true;
      }
    }
    if (source != result) traffic.of_source[source] = traffic.lates.size();
    Late late{.definition = here() - 1, .last_use = here() - 1, .seconds = seconds};
    late.instrs.push_back(std::move(instr));
    traffic.lates.push_back(std::move(late));
    return true;
  }

  bool take_early(Instr& instr) {
    const bool copy = is_copy_to_device(schedule_, instr);
    if (!copy && !gathers_parameter(instr)) return false;
    Traffic& traffic = copy ? copies_ : collectives_;
    instr.stream = copy ? Stream::kH2d : Stream::kComm;
    if (copy) back_of_host_[instr.op.in[0]] = traffic.earlies.size();
    Early early{.use = here(), .seconds = estimate(instr)};
    early.instrs.push_back(std::move(instr));
    traffic.earlies.push_back(std::move(early));
    return true;
  }

  bool take_free(Instr& instr) {
    if (instr.op.kind != OpKind::kFree) return false;
    const TensorId id = instr.op.in[0];
    for (Traffic* traffic : {&copies_, &collectives_}) {
      const auto found = traffic->of_source.find(id);
      if (found == traffic->of_source.end()) continue;
      Late& late = traffic->lates[found->second];
      late.last_use = here() - 1;
      late.frees.push_back(std::move(instr));
      return true;
    }
    const auto back = back_of_host_.find(id);
    if (back == back_of_host_.end()) return false;
    instr.stream = Stream::kH2d;
    copies_.earlies[back->second].instrs.push_back(std::move(instr));
    return true;
  }

  // The first position of each slot and those behind it, the last of each slot and those before it.
  struct SlotEnds {
    std::vector<int> first, last;
  };
  [[nodiscard]] SlotEnds slot_ends() const {
    SlotEnds ends{std::vector<int>(schedule_.slots.size(), here()),
                  std::vector<int>(schedule_.slots.size(), -1)};
    for (int i = here() - 1; i >= 0; --i) ends.first[fixed_[i].slot] = i;
    for (int i = 0; i < here(); ++i) ends.last[fixed_[i].slot] = i;
    for (size_t s = 1; s < ends.last.size(); ++s) {
      ends.last[s] = std::max(ends.last[s], ends.last[s - 1]);
    }
    for (size_t s = ends.first.size(); s-- > 1;) {
      ends.first[s - 1] = std::min(ends.first[s - 1], ends.first[s]);
    }
    return ends;
  }

  struct Use {
    int position;
    bool write;
  };
  using Uses = std::vector<std::vector<Use>>;  // by buffer
  [[nodiscard]] Uses uses_by_buffer() const {
    Uses uses(schedule_.buffers.size());
    for (int i = 0; i < here(); ++i) {
      for (const Access& access : accesses(fixed_[i])) {
        uses[access.buffer].push_back({i, access.write});
      }
    }
    return uses;
  }

  void find_windows(Traffic& traffic, const SlotEnds& ends, const Uses& uses) {
    const int last_slot = static_cast<int>(schedule_.slots.size()) - 1;
    for (Late& late : traffic.lates) {
      const int slot = std::min(fixed_[late.last_use].slot + traffic.window, last_slot);
      late.window_end = std::max(ends.last[slot], late.last_use);
      for (const Use& use : uses[late.instrs[0].op.out[0]]) {
        if (use.position > late.definition) late.deadline = std::min(late.deadline, use.position);
      }
    }
    for (Early& early : traffic.earlies) {
      const int slot = std::max(fixed_[early.use].slot - traffic.window, 0);
      early.window_begin = std::min(ends.first[slot], early.use);
      for (const Use& use : uses[early.instrs[0].op.in[0]]) {
        if (use.write && use.position < early.use) early.earliest = use.position + 1;
      }
    }
  }

  void place() {
    const int limit = options_.max_inflight_async;
    // What comes back has gone out before.
    auto for_each_pair = [&](auto visit) {
      for (Late& out : copies_.lates) {
        const auto found = back_of_host_.find(out.instrs[0].op.out[0]);
        if (found != back_of_host_.end()) visit(out, copies_.earlies[found->second]);
      }
    };
    for_each_pair([](Late& out, const Early& back) {
      out.deadline = std::min(out.deadline, back.use);
    });
    place_late(copies_.lates, {}, copies_.start, limit);
    for_each_pair([](const Late& out, Early& back) {
      back.earliest = std::max(back.earliest, out.issue + 1);
    });
    place_early(copies_.earlies, {}, copies_.start, limit);
    // One stream: reduces first without gathers, which go in front of those that would delay them.
    Traffic& c = collectives_;
    place_late(c.lates, {}, c.start, limit);
    place_early(c.earlies, c.lates, c.start, limit);
    place_late(c.lates, c.earlies, c.start, limit);
  }

  void assemble() {
    std::vector<std::vector<Instr>> before(fixed_.size() + 1), after(fixed_.size() + 1);
    auto add = [&](std::vector<std::vector<Instr>>& lists, std::vector<Instr>& instrs, int at) {
      for (Instr& instr : instrs) {
        instr.slot = fixed_[at].slot;
        lists[at].push_back(std::move(instr));
      }
    };
    // Where one is done and another is issued, the first ends before the second begins.
    for (Traffic* traffic : {&copies_, &collectives_}) {
      for (Late& late : traffic->lates) {
        if (late.done > late.issue) add(after, late.frees, late.done);
      }
    }
    for (Traffic* traffic : {&copies_, &collectives_}) {
      for (Late& late : traffic->lates) {
        add(after, late.instrs, late.issue);
        if (late.done == late.issue) add(after, late.frees, late.done);
      }
      for (Early& early : traffic->earlies) add(before, early.instrs, early.issue);
    }
    schedule_.instrs.clear();
    for (size_t i = 0; i < fixed_.size(); ++i) {
      for (Instr& instr : before[i]) schedule_.instrs.push_back(std::move(instr));
      schedule_.instrs.push_back(std::move(fixed_[i]));
      for (Instr& instr : after[i]) schedule_.instrs.push_back(std::move(instr));
    }
  }

  Schedule& schedule_;
  const LatencyHiding& options_;
  const CostModel& cost_;
  std::vector<Instr> fixed_;
  Traffic copies_, collectives_;
  std::map<TensorId, size_t> back_of_host_;  // host buffer -> index of its copy back
};

}  // namespace

void hide_latency(Schedule& schedule, const LatencyHiding& options, const CostModel& cost) {
  LatencyHider(schedule, options, cost).run();
}

}  // namespace spillway
