#include "offload/placement.h"

#include <algorithm>
#include <queue>

namespace spillway {
namespace {

// The position that the stream has reached when it is free at `time`: the last instruction that has
// started by then, `issue` at least.
int position_at(const Timeline& start, double time, int issue) {
  const auto ready = std::lower_bound(start.begin() + issue + 1, start.end(), time);
  return static_cast<int>(ready - start.begin()) - 1;
}

template <typename Transfer>
std::vector<const Transfer*> in_issue_order(const std::vector<Transfer>& transfers) {
  std::vector<const Transfer*> order;
  for (const Transfer& transfer : transfers) order.push_back(&transfer);
  std::stable_sort(order.begin(), order.end(),
                   [](const Transfer* a, const Transfer* b) { return a->issue < b->issue; });
  return order;
}

// The issue of each transfer, in order, and when the stream is done with it and those before.
struct Busy {
  int issue;
  double until;
};
std::vector<Busy> busy_with(const std::vector<Late>& lates, const Timeline& start) {
  std::vector<Busy> busy;
  double channel_free = 0;
  for (const Late* late : in_issue_order(lates)) {
    channel_free = std::max(channel_free, start[late->issue + 1]);
    channel_free += late->seconds + late->more_seconds;
    busy.push_back({late->issue, channel_free});
  }
  return busy;
}

}  // namespace

void place_late(std::vector<Late>& lates, const std::vector<Early>& others, const Timeline& start,
                int limit) {
  // Issued in order of definition, one must not wait beyond the deadline of those behind it.
  for (size_t i = lates.size(); i-- > 1;) {
    lates[i - 1].deadline = std::min(lates[i - 1].deadline, lates[i].deadline);
  }
  const std::vector<const Early*> queue = in_issue_order(others);
  auto next = queue.begin();
  auto done_later = [](const Late* a, const Late* b) { return a->done > b->done; };
  std::priority_queue<Late*, std::vector<Late*>, decltype(done_later)> in_flight(done_later);
  double channel_free = 0;
  for (Late& late : lates) {
    late.issue = late.definition;
    while (!in_flight.empty() && in_flight.top()->done <= late.issue) in_flight.pop();
    while (static_cast<int>(in_flight.size()) >= limit) {
      Late& first = *in_flight.top();
      in_flight.pop();
      late.issue = std::min(std::max(late.issue, first.done), late.deadline - 1);
      first.done = std::max({std::min(first.done, late.issue), first.last_use, first.issue});
    }
    for (; next != queue.end() && (*next)->issue <= late.issue; ++next) {
      channel_free = std::max(channel_free, start[(*next)->issue]) + (*next)->seconds;
    }
    channel_free = std::max(channel_free, start[late.issue + 1]) + late.seconds;
    const int hidden = position_at(start, channel_free, late.issue);
    channel_free += late.more_seconds;
    late.done = std::max({std::min(hidden, late.window_end), late.last_use, late.issue});
    in_flight.push(&late);
  }
}

void place_early(std::vector<Early>& earlies, const std::vector<Late>& others,
                 const Timeline& start, int limit) {
  const std::vector<Busy> busy = busy_with(others, start);
  std::vector<Early*> in_flight;  // in order of use, latest first
  double channel_free = start.back();
  for (auto it = earlies.rbegin(); it != earlies.rend(); ++it) {
    Early& early = *it;
    std::erase_if(in_flight, [&](const Early* other) { return other->issue > early.use; });
    while (static_cast<int>(in_flight.size()) >= limit && in_flight.front()->use > early.use) {
      in_flight.front()->issue = early.use + 1;
      in_flight.erase(in_flight.begin());
    }
    const int begin = std::max(early.window_begin, early.earliest);
    const double begins = std::min(channel_free, start[early.use]) - early.seconds;
    const auto after = std::upper_bound(start.begin(), start.begin() + early.use + 1, begins);
    const auto behind = std::partition_point(busy.begin(), busy.end(), [&](const Busy& other) {
      return other.until <= begins;
    });
    early.issue = static_cast<int>(after - start.begin()) - 1;
    if (behind != busy.end()) early.issue = std::min(early.issue, behind->issue);
    early.issue = std::max(early.issue, begin);
    channel_free = std::max(begins, start[begin]);
    in_flight.push_back(&early);
  }
}

}  // namespace spillway
