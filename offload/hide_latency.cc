#include "offload/hide_latency.h"

#include <algorithm>
#include <map>
#include <queue>

namespace spillway {
namespace {

// The instructions that stay where they are, with estimated start times, and the copies to place
// among them. Positions are indices into `fixed`.
struct CopyOut {
  Instr copy, free;
  int definition = 0, last_use = 0;  // positions
  double seconds = 0;
  int issue = 0, done = 0;  // result: issue after, free after
};
struct CopyBack {
  Instr copy, free_host;
  int use = 0;
  double seconds = 0;
  int issue = 0;  // result: issue before
};

class LatencyHider {
 public:
  LatencyHider(Schedule& schedule, const LatencyHiding& options, const CostModel& cost)
      : schedule_(schedule), options_(options) {
    take_apart(cost);
  }

  void run() {
    place_copies_out();
    place_copies_back();
    assemble();
  }

 private:
  void take_apart(const CostModel& cost) {
    double now = 0;
    for (Instr& instr : schedule_.instrs) {
      if (take_copy(instr, cost) || take_free_of_copied(instr)) continue;
      start_.push_back(now);
      now += cost.seconds(schedule_, instr);
      fixed_.push_back(std::move(instr));
    }
    start_.push_back(now);
    find_slot_ends();
  }

  bool take_copy(Instr& instr, const CostModel& cost) {
    const int here = static_cast<int>(fixed_.size());
    const bool to_host = is_copy_to_host(schedule_, instr);
    if (!to_host && !is_copy_to_device(schedule_, instr)) return false;
    const double seconds = cost.seconds(schedule_, instr) * options_.margin;
    if (to_host) {
      out_of_source_[instr.op.in[0]] = out_.size();
      out_.push_back({.copy = std::move(instr), .definition = here - 1, .seconds = seconds});
    } else {
      back_of_host_[instr.op.in[0]] = back_.size();
      back_.push_back({.copy = std::move(instr), .use = here, .seconds = seconds});
    }
    return true;
  }

  bool take_free_of_copied(Instr& instr) {
    if (instr.op.kind != OpKind::kFree) return false;
    const TensorId id = instr.op.in[0];
    if (const auto out = out_of_source_.find(id); out != out_of_source_.end()) {
      out_[out->second].last_use = static_cast<int>(fixed_.size()) - 1;
      out_[out->second].free = std::move(instr);
      return true;
    }
    const auto back = back_of_host_.find(id);
    if (back == back_of_host_.end()) return false;
    back_[back->second].free_host = std::move(instr);
    return true;
  }

  void find_slot_ends() {
    slot_first_.assign(schedule_.slots.size(), static_cast<int>(fixed_.size()));
    slot_last_.assign(schedule_.slots.size(), -1);
    for (size_t i = 0; i < fixed_.size(); ++i) {
      const int slot = fixed_[i].slot;
      slot_first_[slot] = std::min(slot_first_[slot], static_cast<int>(i));
      slot_last_[slot] = static_cast<int>(i);
    }
  }

  [[nodiscard]] int window_end(int last_use) const {
    const int slot = fixed_[last_use].slot;
    const int last_slot = static_cast<int>(schedule_.slots.size()) - 1;
    const int next = options_.pipelined ? std::min(slot + 1, last_slot) : slot;
    return std::max(slot_last_[next], last_use);
  }

  [[nodiscard]] int window_begin(int use) const {
    const int slot = fixed_[use].slot;
    const int previous = options_.pipelined ? std::max(slot - 1, 0) : slot;
    return std::min(slot_first_[previous], use);
  }

  // Forward in time: a copy is issued at its definition unless too many are in flight, and is done
  // when the channel has had the time for it.
  void place_copies_out() {
    std::priority_queue<int, std::vector<int>, std::greater<>> in_flight;  // their `done`
    double channel_free = 0;
    for (CopyOut& out : out_) {
      out.issue = out.definition;
      while (!in_flight.empty() && in_flight.top() <= out.issue) in_flight.pop();
      while (static_cast<int>(in_flight.size()) >= options_.max_inflight_async) {
        out.issue = std::max(out.issue, in_flight.top());
        in_flight.pop();
      }
      channel_free = std::max(channel_free, start_[out.issue + 1]) + out.seconds;
      const auto ready = std::lower_bound(start_.begin() + out.issue + 1, start_.end(), channel_free);
      const int hidden = static_cast<int>(ready - start_.begin()) - 1;
      out.done = std::max({std::min(hidden, window_end(out.last_use)), out.last_use, out.issue});
      in_flight.push(out.done);
    }
  }

  // The mirror image, backward in time: uses are fixed, and issue positions are found from the last
  // to the first. Where too many windows would overlap a use, the one used last starts there.
  void place_copies_back() {
    std::vector<CopyBack*> in_flight;  // in order of use, latest first
    double channel_free = start_.back();
    for (auto it = back_.rbegin(); it != back_.rend(); ++it) {
      CopyBack& back = *it;
      std::erase_if(in_flight, [&](const CopyBack* other) { return other->issue > back.use; });
      while (static_cast<int>(in_flight.size()) >= options_.max_inflight_async &&
             in_flight.front()->use > back.use) {
        in_flight.front()->issue = back.use + 1;
        in_flight.erase(in_flight.begin());
      }
      const int begin = window_begin(back.use);
      const double start = std::min(channel_free, start_[back.use]) - back.seconds;
      const auto after = std::upper_bound(start_.begin(), start_.begin() + back.use, start);
      back.issue = std::max(static_cast<int>(after - start_.begin()) - 1, begin);
      channel_free = std::max(start, start_[begin]);
      in_flight.push_back(&back);
    }
  }

  void assemble() {
    std::vector<std::vector<Instr>> before(fixed_.size() + 1), after(fixed_.size() + 1);
    auto add = [&](std::vector<Instr>& list, Instr instr, Stream stream, int position) {
      instr.stream = stream;
      instr.slot = fixed_[position].slot;
      list.push_back(std::move(instr));
    };
    // Where one copy is done and another is issued, the first ends before the second begins.
    auto add_free = [&](CopyOut& out) {
      add(after[out.done], std::move(out.free), Stream::kCompute, out.done);
    };
    for (CopyOut& out : out_) {
      if (out.done > out.issue) add_free(out);
    }
    for (CopyOut& out : out_) {
      add(after[out.issue], std::move(out.copy), Stream::kD2h, out.issue);
      if (out.done == out.issue) add_free(out);
    }
    for (CopyBack& back : back_) {
      add(before[back.issue], std::move(back.copy), Stream::kH2d, back.issue);
      add(before[back.issue], std::move(back.free_host), Stream::kH2d, back.issue);
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
  std::vector<Instr> fixed_;
  std::vector<double> start_;  // estimated start of each fixed instruction, and the end of the last
  std::vector<int> slot_first_, slot_last_;  // positions
  std::vector<CopyOut> out_;
  std::vector<CopyBack> back_;
  std::map<TensorId, size_t> out_of_source_;  // HBM buffer on its way out -> index in out_
  std::map<TensorId, size_t> back_of_host_;   // host buffer on its way back -> index in back_
};

}  // namespace

void hide_latency(Schedule& schedule, const LatencyHiding& options, const CostModel& cost) {
  LatencyHider(schedule, options, cost).run();
}

}  // namespace spillway
