#include "device/sim/virtual_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/error.h"
#include "program/text.h"

namespace spillway::sim {

VirtualRanks::VirtualRanks(const Schedule& schedule, std::vector<std::vector<Cost>> costs)
    : schedule_(schedule), costs_(std::move(costs)), timings_(schedule.instrs.size()) {
  equalize_collectives();
  for (size_t i = 0; i < costs_.size(); ++i) ranks_.emplace_back(schedule.instrs.size());
  std::array<size_t, kStreamCount> commands = {};
  for (const Instr& instr : schedule.instrs) {  // launch, record, and its waits
    commands[static_cast<size_t>(instr.stream)] += 2 + instr.waits.size();
  }
  for (size_t i = 0; i < kStreamCount; ++i) queues_[i].reserve(commands[i]);
}

// Who has less to do does it more slowly: all end together.
void VirtualRanks::equalize_collectives() {
  for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
    if (!together(static_cast<int>(i))) continue;
    double longest = 0;
    for (const auto& of_class : costs_) longest = std::max(longest, of_class[i].seconds);
    for (auto& of_class : costs_) of_class[i].stretch(longest);
  }
}

void VirtualRanks::begin() {
  now_ = 0;
  for (Rank& rank : ranks_) {
    rank.fluid.reset();
    rank.streams = {};
    std::ranges::fill(rank.event, kNotYet);
    rank.computed = rank.waited = 0;
  }
  for (auto& queue : queues_) queue.clear();
  arrived_ = running_ = {};
}

void VirtualRanks::push(Stream stream, const Command& command) {
  queues_[static_cast<size_t>(stream)].push_back(command);
}

void VirtualRanks::run() {
  for (Rank& rank : ranks_) rank.stirred = true;
  for (;;) {
    start_what_can();
    Picoseconds next = kNever;
    for (Rank& rank : ranks_) next = std::min(next, rank.fluid.next_end());
    if (next == kNever) break;
    now_ = next;
    for (Rank& rank : ranks_) {
      if (rank.fluid.next_end() != now_) continue;
      for (int instr : rank.fluid.advance_to(now_)) finish(rank, instr);
    }
  }
  check_all_done();
  for (auto& queue : queues_) queue.clear();
  for (Rank& rank : ranks_) {
    for (StreamState& stream : rank.streams) stream.next = 0;
  }
}

// Instructions that cost nothing end at once and may let others start, here and elsewhere: until nothing
// changes.
void VirtualRanks::start_what_can() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Rank& rank : ranks_) {
      if (!std::exchange(rank.stirred, false)) continue;
      for (size_t stream = 0; stream < kStreamCount; ++stream) {
        if (start_on(rank, stream)) changed = rank.stirred = true;
      }
    }
  }
}

// Whether something happened.
bool VirtualRanks::start_on(Rank& rank, size_t which) {
  StreamState& stream = rank.streams[which];
  const std::vector<Command>& queue = queues_[which];
  const size_t before = stream.next;
  while (!stream.busy && stream.next < queue.size()) {
    const auto [kind, instr] = queue[stream.next];
    Picoseconds& event = rank.event[static_cast<size_t>(instr)];
    if (kind == Command::Kind::kLaunch) {
      if (!launch(rank, which, instr)) break;
      continue;
    }
    if (kind == Command::Kind::kWait && event == kNotYet) break;
    if (kind == Command::Kind::kRecord) event = now_;
    ++stream.next;
  }
  return stream.next != before;
}

// Whether it started: a collective does so with the last rank to arrive.
bool VirtualRanks::launch(Rank& rank, size_t which, int instr) {
  if (!together(instr)) {
    start(rank, which, instr);
    return true;
  }
  StreamState& stream = rank.streams[which];
  if (std::exchange(stream.arrived, true)) return false;
  stream.arrived_at = now_;
  if (++arrived_[which] < ranks_.size()) return false;
  arrived_[which] = 0;
  running_[which] = ranks_.size();
  for (Rank& each : ranks_) {
    each.streams[which].arrived = false;
    each.waited += now_ - each.streams[which].arrived_at;
    start(each, which, instr);
  }
  return true;
}

void VirtualRanks::start(Rank& rank, size_t which, int instr) {
  StreamState& stream = rank.streams[which];
  const Cost& cost = costs_[index(rank)][static_cast<size_t>(instr)];
  if (&rank == ranks_.data()) {
    InstrTiming& timing = timings_[static_cast<size_t>(instr)];
    timing.begin_ns = now_ / 1000;
    timing.wait_ns = (now_ - stream.free_at) / 1000;
  }
  ++stream.next;
  stream.busy = true;
  stream.began = now_;
  rank.stirred = true;
  if (to_picoseconds(cost.seconds) > 0) {
    (void)rank.fluid.advance_to(now_);  // nothing ends: run() has seen to ends until now
    rank.fluid.start(instr, cost);
  } else {
    finish(rank, instr);
  }
}

void VirtualRanks::finish(Rank& rank, int instr) {
  const auto which = static_cast<size_t>(schedule_.instrs[static_cast<size_t>(instr)].stream);
  if (!together(instr)) return end(rank, which, instr);
  if (--running_[which] > 0) return;
  for (Rank& each : ranks_) end(each, which, instr);
}

void VirtualRanks::end(Rank& rank, size_t which, int instr) {
  StreamState& stream = rank.streams[which];
  stream.busy = false;
  stream.free_at = now_;
  rank.stirred = true;
  const OpKind kind = schedule_.instrs[static_cast<size_t>(instr)].op.kind;
  if (kind != OpKind::kCopy && !is_collective(kind)) rank.computed += now_ - stream.began;
  if (&rank == ranks_.data()) timings_[static_cast<size_t>(instr)].end_ns = now_ / 1000;
}

void VirtualRanks::check_all_done() const {
  for (size_t i = 0; i < kStreamCount; ++i) {
    const size_t next = ranks_[0].streams[i].next;
    if (next >= queues_[i].size()) continue;
    const int instr = queues_[i][next].instr;
    throw DeviceError(fmt::format(
        "sim error: stream {} waits for `{}`, which nothing records", name_of(static_cast<Stream>(i)),
        to_text(schedule_, schedule_.instrs[static_cast<size_t>(instr)])));
  }
}

double VirtualRanks::compute_seconds(size_t of_class) const {
  return static_cast<double>(ranks_[of_class].computed) * 1e-12;
}

double VirtualRanks::collective_wait_seconds(size_t of_class) const {
  return static_cast<double>(ranks_[of_class].waited) * 1e-12;
}

}  // namespace spillway::sim
