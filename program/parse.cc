// Parsing of the text form that program/text.cc prints.
#include <array>
#include <charconv>
#include <map>
#include <sstream>

#include "program/error.h"
#include "program/op_table.h"
#include "program/text.h"

namespace spillway {
namespace {

// Splits on single separators, dropping blanks around each part.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const size_t begin = part.find_first_not_of(" \t"), end = part.find_last_not_of(" \t");
    if (begin != std::string::npos) parts.push_back(part.substr(begin, end - begin + 1));
  }
  return parts;
}

int64_t parse_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ConfigError("not an integer: " + text);
  }
  return value;
}

void parse_type(const std::string& text, DType& dtype, Shape& shape) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    throw ConfigError("expected a type like f32[2,3]: " + text);
  }
  dtype = dtype_named(text.substr(0, open));
  for (const std::string& dim : split(text.substr(open + 1, close - open - 1), ',')) {
    shape.push_back(parse_integer(dim));
  }
}

template <typename Enum, size_t kCount>
Enum named(const std::string& text, const std::array<Enum, kCount>& values) {
  for (Enum value : values) {
    if (name_of(value) == text) return value;
  }
  throw ConfigError("unknown name " + text);
}

// `y+, z = kind(a, b) {eps=1e-05} !recompute`
template <typename Find>
Op parse_op(std::string text, Find find) {
  Op op;
  if (const size_t mark = text.find(" !recompute"); mark != std::string::npos) {
    op.recompute = true;
    text.erase(mark);
  }
  const size_t open = text.find('('), close = text.find(')', open);
  if (open == std::string::npos || close == std::string::npos) {
    throw ConfigError("expected op(operands): " + text);
  }
  std::string head = text.substr(0, open);
  if (const size_t equals = head.find(" = "); equals != std::string::npos) {
    for (std::string name : split(head.substr(0, equals), ',')) {
      op.accumulate.push_back(name.back() == '+');
      if (name.back() == '+') name.pop_back();
      op.out.push_back(find(name));
    }
    head = head.substr(equals + 3);
  }
  op.kind = op_named(split(head, ' ').at(0));
  for (const std::string& name : split(text.substr(open + 1, close - open - 1), ',')) {
    op.in.push_back(find(name));
  }
  if (const size_t brace = text.find('{', close); brace != std::string::npos) {
    for (const std::string& pair : split(text.substr(brace + 1, text.find('}') - brace - 1), ',')) {
      const size_t equals = pair.find('=');
      for (int a = 0; a < kAttrCount; ++a) {
        if (name_of(static_cast<Attr>(a)) == pair.substr(0, equals)) {
          op.attrs.set(static_cast<Attr>(a), std::stod(pair.substr(equals + 1)));
        }
      }
    }
  }
  return op;
}

// Calls line(text, number) for each line that is not blank; adds the number to errors.
template <typename Line>
void for_each_line(const std::string& text, Line line) {
  std::stringstream stream(text);
  int number = 0;
  for (std::string raw; std::getline(stream, raw);) {
    ++number;
    if (raw.find_first_not_of(" \t") == std::string::npos) continue;
    try {
      line(raw);
    } catch (const std::exception& error) {
      throw ConfigError("line " + std::to_string(number) + ": " + error.what());
    }
  }
}

TensorKind kind_named(const std::string& text) {
  static const std::map<std::string, TensorKind> kKinds = {
      {"value", TensorKind::kValue},       {"param", TensorKind::kParam},
      {"grad", TensorKind::kGrad},         {"state", TensorKind::kState},
      {"constant", TensorKind::kConstant}, {"step_io", TensorKind::kStepIo}};
  const auto found = kKinds.find(text);
  if (found == kKinds.end()) throw ConfigError("unknown tensor kind " + text);
  return found->second;
}

Tensor parse_tensor(const std::vector<std::string>& words) {
  Tensor tensor{.name = words.at(1), .dtype = DType::kF32, .shape = {},
                .kind = kind_named(words[0])};
  parse_type(words.at(2), tensor.dtype, tensor.shape);
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i] == "micro_batched") {
      tensor.micro_batched = true;
    } else if (words[i] == "per_block") {
      tensor.per_block = true;
    } else if (words[i] == "global") {
      tensor.global = true;
    } else if (words[i] == "ones") {
      tensor.init.kind = Init::Kind::kOnes;
    } else if (words[i].starts_with("normal=")) {
      tensor.init = {Init::Kind::kNormal, std::stof(words[i].substr(7))};
    } else {
      tensor.strategy = named(words[i], std::array{Strategy::kDevice, Strategy::kRemat,
                                                   Strategy::kOffload});
    }
  }
  return tensor;
}

Buffer parse_buffer(const std::vector<std::string>& words) {
  Buffer buffer{.name = words.at(1)};
  parse_type(words.at(2), buffer.dtype, buffer.shape);
  buffer.space = named(words.at(3), std::array{Space::kHbm, Space::kHost});
  buffer.memory =
      named(words.at(4), std::array{MemoryClass::kParameter, MemoryClass::kGradient,
                                    MemoryClass::kOptimizer, MemoryClass::kStepIo,
                                    MemoryClass::kActivation, MemoryClass::kWorkspace,
                                    MemoryClass::kGathered});
  for (size_t i = 5; i < words.size(); ++i) {
    if (words[i] == "persistent") {
      buffer.persistent = true;
    } else if (words[i] == "offload") {
      buffer.offload = true;
    } else if (words[i].starts_with("activation=")) {
      buffer.activation = words[i].substr(11);
    } else if (words[i].starts_with("shard=")) {
      buffer.shard_axes = static_cast<uint8_t>(parse_integer(words[i].substr(6)));
    } else {
      throw ConfigError("unknown buffer mark " + words[i]);
    }
  }
  return buffer;
}

Slot parse_slot(const std::string& text) {
  const std::vector<std::string> parts = split(text, '.');
  if (parts.size() != 3) throw ConfigError("expected a slot like L3.fwd.m0: " + text);
  return {parts[0],
          named(parts[1], std::array{Phase::kForward, Phase::kBackward, Phase::kNorm,
                                     Phase::kUpdate, Phase::kEval}),
          static_cast<int>(parse_integer(parts[2].substr(1)))};
}

constexpr std::array kStreams = {Stream::kCompute, Stream::kD2h, Stream::kH2d, Stream::kComm};

}  // namespace

Program parse_program(const std::string& text) {
  Program program;
  std::map<std::string, TensorId> ids;
  auto find = [&](const std::string& name) {
    const auto found = ids.find(name);
    if (found == ids.end()) throw ConfigError("unknown tensor " + name);
    return found->second;
  };
  std::vector<Op>* list = nullptr;
  for_each_line(text, [&](const std::string& line) {
    const std::vector<std::string> words = split(line, ' ');
    if (words[0] == "program") {
      program.name = words.at(1);
    } else if (words[0] == "forward" || words[0] == "backward") {
      list = words[0] == "forward" ? &program.forward : &program.backward;
    } else if (list != nullptr) {
      list->push_back(parse_op(line, find));
    } else if (words.size() == 2) {
      TensorId& role = words[0] == "input"     ? program.input
                       : words[0] == "output"  ? program.output
                       : words[0] == "d_input" ? program.d_input
                                               : program.d_output;
      role = find(words[1]);
    } else {
      ids[words.at(1)] = static_cast<TensorId>(program.tensors.size());
      program.tensors.push_back(parse_tensor(words));
    }
  });
  return program;
}

Schedule parse_schedule(const std::string& text) {
  Schedule schedule;
  std::map<std::string, TensorId> ids;
  auto find = [&](const std::string& name) {
    const auto found = ids.find(name);
    if (found == ids.end()) throw ConfigError("unknown buffer " + name);
    return found->second;
  };
  std::array<std::vector<int>, kStreamCount> by_stream;
  for_each_line(text, [&](const std::string& raw) {
    const size_t comment = raw.find("  # wait ");
    const std::string line = raw.substr(0, comment);
    const std::vector<std::string> words = split(line, ' ');
    if (words[0] == "schedule" || words[0] == "instrs") return;
    if (words[0] == "buffer") {
      ids[words.at(1)] = static_cast<TensorId>(schedule.buffers.size());
      schedule.buffers.push_back(parse_buffer(words));
      return;
    }
    Instr instr;
    const Slot slot = parse_slot(words[0]);
    if (schedule.slots.empty() || !(schedule.slots.back() == slot)) schedule.slots.push_back(slot);
    instr.slot = static_cast<int>(schedule.slots.size()) - 1;
    instr.stream = named(words.at(1), kStreams);
    const size_t op_at = line.find(words[1], line.find(words[0]) + words[0].size()) +
                         words[1].size();
    instr.op = parse_op(line.substr(op_at), find);
    if (comment != std::string::npos) {
      for (const std::string& wait : split(raw.substr(comment + 9), ',')) {
        const size_t hash = wait.find('#');
        const auto stream = static_cast<size_t>(named(wait.substr(0, hash), kStreams));
        instr.waits.push_back(by_stream[stream].at(parse_integer(wait.substr(hash + 1))));
      }
    }
    by_stream[static_cast<size_t>(instr.stream)].push_back(
        static_cast<int>(schedule.instrs.size()));
    schedule.instrs.push_back(std::move(instr));
  });
  return schedule;
}

}  // namespace spillway
