#include "device/executor.h"

#include <cstring>

#include "program/error.h"
#include "program/text.h"

namespace spillway {
namespace {

bool finite_bits(uint32_t bits) { return (bits & 0x7f800000) != 0x7f800000; }

bool all_finite(const std::vector<std::byte>& bytes, DType dtype) {
  const auto width = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; at < bytes.size(); at += width) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, width);
    if (!finite_bits(dtype == DType::kBF16 ? bits << 16 : bits)) return false;
  }
  return true;
}

struct Range {
  int64_t offset, bytes;
};

// The bytes of an output that the instruction has written: put_rows defines some rows only.
Range written(const Buffer& buffer, int64_t offset, const Op& op) {
  if (op.kind != OpKind::kPutRows) return {offset, buffer.bytes()};
  const int64_t row = buffer.bytes() / buffer.shape[0];
  const int64_t begin = op.attrs.integer(Attr::kBegin), end = op.attrs.integer(Attr::kEnd);
  return {offset + begin * row, (end - begin) * row};
}

}  // namespace

Executor::Executor(Device& device, const Schedule& schedule, const MemoryPlan& plan)
    : device_(device), schedule_(schedule), plan_(plan), recorded_(schedule.instrs.size()) {
  for (const Instr& instr : schedule.instrs) {
    const std::string why = device.unsupported(schedule, instr);
    if (!why.empty()) {
      throw ConfigError("device " + device.name() + " cannot run `" + to_text(schedule, instr) +
                        "`: " + why);
    }
    for (int other : instr.waits) recorded_[static_cast<size_t>(other)] = true;
  }
  loaded_ = device.load(schedule, plan);
}

void Executor::run() {
  device_.begin(*loaded_);
  for (int i = 0; i < static_cast<int>(schedule_.instrs.size()); ++i) {
    const Instr& instr = schedule_.instrs[static_cast<size_t>(i)];
    for (int other : instr.waits) device_.wait(*loaded_, instr.stream, other);
    device_.launch(*loaded_, i);
    if (recorded_[static_cast<size_t>(i)]) device_.record(*loaded_, i);
  }
  device_.synchronize(*loaded_);
}

// With the device idle after every instruction no events are needed.
void Executor::watch(const std::function<bool(int instr)>& visit) {
  device_.begin(*loaded_);
  for (int i = 0; i < static_cast<int>(schedule_.instrs.size()); ++i) {
    device_.launch(*loaded_, i);
    device_.synchronize(*loaded_);
    if (!visit(i)) return;
  }
}

Executor::Finding Executor::find_non_finite() {
  Finding found;
  std::vector<std::byte> bytes;
  watch([&](int i) {
    if (!found.where.empty()) return true;
    const Instr& instr = schedule_.instrs[static_cast<size_t>(i)];
    for (TensorId id : instr.op.out) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(id)];
      if (buffer.dtype == DType::kI32) continue;
      const Range range = written(buffer, plan_.offset[static_cast<size_t>(id)], instr.op);
      bytes.resize(static_cast<size_t>(range.bytes));
      device_.read(buffer.space, range.offset, bytes);
      if (all_finite(bytes, buffer.dtype)) continue;
      found = {i, schedule_.slots[static_cast<size_t>(instr.slot)].text() + ": " +
                      to_text(schedule_, instr)};
      break;
    }
    return true;
  });
  return found;
}

}  // namespace spillway
