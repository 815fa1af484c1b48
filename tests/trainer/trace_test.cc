#include "trainer/trace.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "program/text.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::HasSubstr;

//   compute  y = add(x, x)          1000 .. 3000 ns
//   d2h      y@host = copy(y)       3500 .. 5500, 500 after the compute stream was done with y
//   compute  free y                 5500 .. 5500, after 2500 of waiting for the copy
Schedule small_schedule() {
  Schedule schedule;
  Buffer x;
  x.name = "x";
  x.shape = {4};
  x.persistent = true;
  Buffer y = x, host = x;
  y.name = "y";
  y.persistent = false;
  host.name = "y@host";
  host.space = Space::kHost;
  schedule.buffers = {x, y, host};
  schedule.slots = {{"L0", Phase::kForward, 0}};
  const auto add = [&](Stream stream, OpKind kind, std::vector<TensorId> in,
                       std::vector<TensorId> out, std::vector<int> waits) {
    Instr instr;
    instr.stream = stream;
    instr.op.kind = kind;
    instr.op.accumulate.assign(out.size(), false);
    instr.op.in = std::move(in);
    instr.op.out = std::move(out);
    instr.waits = std::move(waits);
    schedule.instrs.push_back(std::move(instr));
  };
  add(Stream::kCompute, OpKind::kAdd, {0, 0}, {1}, {});
  add(Stream::kD2h, OpKind::kCopy, {1}, {2}, {0});
  add(Stream::kCompute, OpKind::kFree, {1}, {}, {1});
  return schedule;
}

const InstrTiming kTimings[] = {{1000, 3000, 0}, {3500, 5500, 500}, {5500, 5500, 2500}};

TEST(Trace, AnEventAnInstructionOnTheRowOfItsStream) {
  const Schedule schedule = small_schedule();
  const auto json = nlohmann::json::parse(trace_json(schedule, kTimings));
  std::map<int, std::string> rows;
  std::vector<nlohmann::json> instrs, waits;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") (event["name"] == "wait" ? waits : instrs).push_back(event);
  }
  EXPECT_EQ(rows.size(), static_cast<size_t>(kStreamCount));
  ASSERT_EQ(instrs.size(), 3u);
  EXPECT_EQ(instrs[0]["name"], "add y");
  EXPECT_EQ(rows[instrs[0]["tid"]], "compute");
  EXPECT_EQ(instrs[0]["ts"], 1.0);
  EXPECT_EQ(instrs[0]["dur"], 2.0);
  EXPECT_EQ(instrs[0]["args"]["slot"], "L0.fwd.m0");
  EXPECT_EQ(instrs[0]["args"]["text"], to_text(schedule, schedule.instrs[0]));
  EXPECT_EQ(instrs[0]["args"]["bytes"], instr_bytes(schedule, schedule.instrs[0]));
  EXPECT_EQ(instrs[1]["name"], "copy y@host");
  EXPECT_EQ(rows[instrs[1]["tid"]], "d2h");
  EXPECT_EQ(instrs[1]["args"]["waits"][0], "0: add y");
  EXPECT_EQ(instrs[2]["name"], "free y");

  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[1]["ts"], 3.0);
  EXPECT_EQ(waits[1]["dur"], 2.5);
  EXPECT_EQ(waits[1]["args"]["before"], "free y");
  EXPECT_EQ(waits[1]["args"]["waits"][0], "1: copy y@host");
}

TEST(Trace, IsWrittenWhole) {
  const TempDir dir;
  const Schedule schedule = small_schedule();
  write_trace(dir.path("trace.json").string(), schedule, kTimings);
  EXPECT_EQ(dir.read("trace.json"), trace_json(schedule, kTimings));
  EXPECT_THAT(message_of<std::runtime_error>(
                  [&] { write_trace(dir.path("no/trace.json").string(), schedule, kTimings); }),
              HasSubstr("no/trace.json"));
}

}  // namespace
}  // namespace spillway
