#include "trainer/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "program/op_table.h"
#include "program/text.h"
#include "trainer/atomic_file.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

// "linear L0.m0.query_proj": the op and what it makes; for `free`, what it frees.
std::string event_name(const Schedule& schedule, const Instr& instr) {
  const std::vector<TensorId>& named = instr.op.out.empty() ? instr.op.in : instr.op.out;
  std::string name(op_info(instr.op.kind).name);
  return named.empty() ? name : fmt::format("{} {}", name, schedule.buffers[named[0]].name);
}

class Trace {
 public:
  Trace(const Schedule& schedule, std::span<const InstrTiming> timings)
      : schedule_(schedule), timings_(timings) {}

  std::string text() {
    add_names();
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      if (timings_[i].wait_ns > 0) add_wait(static_cast<int>(i));
      add_instr(static_cast<int>(i));
    }
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", events_);
  }

 private:
  void add_names() {
    add({{"ph", "M"}, {"name", "process_name"}, {"pid", 0}, {"args", {{"name", "spillway"}}}});
    for (int i = 0; i < kStreamCount; ++i) {
      const std::string name(name_of(static_cast<Stream>(i)));
      add({{"ph", "M"},
           {"name", "thread_name"},
           {"pid", 0},
           {"tid", i},
           {"args", {{"name", name}}}});
      add({{"ph", "M"},
           {"name", "thread_sort_index"},
           {"pid", 0},
           {"tid", i},
           {"args", {{"sort_index", i}}}});
    }
  }

  void add_wait(int index) {
    const InstrTiming& timing = timings_[index];
    Json event = complete("wait", index, timing.begin_ns - timing.wait_ns, timing.wait_ns);
    event["args"] = {{"before", event_name(schedule_, schedule_.instrs[index])},
                     {"waits", waits(index)}};
    add(event);
  }

  void add_instr(int index) {
    const Instr& instr = schedule_.instrs[index];
    const InstrTiming& timing = timings_[index];
    Json event = complete(event_name(schedule_, instr), index, timing.begin_ns,
                          timing.end_ns - timing.begin_ns);
    event["args"] = {{"instr", index},
                     {"text", to_text(schedule_, instr)},
                     {"slot", schedule_.slots[instr.slot].text()},
                     {"bytes", instr_bytes(schedule_, instr)},
                     {"flops", instr_flops(schedule_, instr)},
                     {"wait_us", microseconds(timing.wait_ns)},
                     {"waits", waits(index)}};
    add(event);
  }

  [[nodiscard]] Json complete(const std::string& name, int index, int64_t begin_ns,
                              int64_t length_ns) const {
    return {{"ph", "X"},
            {"name", name},
            {"pid", 0},
            {"tid", static_cast<int>(schedule_.instrs[index].stream)},
            {"ts", microseconds(begin_ns)},
            {"dur", microseconds(length_ns)}};
  }

  // The instructions waited for: "12: copy L0.m0.context@host".
  [[nodiscard]] Json waits(int index) const {
    Json result = Json::array();
    for (const int other : schedule_.instrs[index].waits) {
      result.push_back(
          fmt::format("{}: {}", other, event_name(schedule_, schedule_.instrs[other])));
    }
    return result;
  }

  void add(const Json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump();
  }

  const Schedule& schedule_;
  std::span<const InstrTiming> timings_;
  std::string events_;
};

}  // namespace

std::string trace_json(const Schedule& schedule, std::span<const InstrTiming> timings) {
  return Trace(schedule, timings).text();
}

void write_trace(const std::string& path, const Schedule& schedule,
                 std::span<const InstrTiming> timings) {
  AtomicFile file(path);
  file.append(trace_json(schedule, timings));
  file.publish();
}

}  // namespace spillway
