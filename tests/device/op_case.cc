#include "tests/device/op_case.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/cpu/element.h"
#include "device/cpu/kernel.h"
#include "program/op_table.h"

namespace spillway {
namespace {

// A tensor between two guards that nobody may write.
class GuardedTensor {
 public:
  GuardedTensor(const Shape& shape, DType dtype) {
    bytes_ = static_cast<size_t>(element_count(shape) * size_of(dtype));
    memory_.assign(bytes_ + 2 * kGuard, kGuardByte);
    std::memset(data(), 0xff, bytes_);
    ref_ = {.data = data(), .dtype = dtype, .shape = shape};
  }

  void write(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (ref_.dtype == DType::kI32) {
        cpu::elements_of<int32_t>(ref_)[i] = static_cast<int32_t>(values[i]);
      } else {
        const auto value = static_cast<float>(values[i]);
        cpu::store(ref_, static_cast<int64_t>(i), 1, false, &value);
      }
    }
  }

  [[nodiscard]] Array read() const {
    Array array(ref_.shape);
    for (size_t i = 0; i < array.values.size(); ++i) {
      float buffer;
      array.values[i] = ref_.dtype == DType::kI32
                            ? cpu::elements_of<int32_t>(ref_)[i]
                            : *cpu::load(ref_, static_cast<int64_t>(i), 1, &buffer);
    }
    return array;
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const auto* begin = static_cast<const std::byte*>(ref_.data);
    return {begin, begin + bytes_};
  }
  [[nodiscard]] bool guards_intact() const {
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, is_guard) &&
           std::all_of(memory_.end() - kGuard, memory_.end(), is_guard);
  }
  [[nodiscard]] const cpu::TensorRef& ref() const { return ref_; }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kGuardByte = 0xa5;
  static bool is_guard(unsigned char byte) { return byte == kGuardByte; }
  unsigned char* data() { return memory_.data() + kGuard; }

  size_t bytes_;
  std::vector<unsigned char> memory_;
  cpu::TensorRef ref_;
};

double largest_magnitude(const Array& array) {
  double largest = 0;
  for (double value : array.values) largest = std::max(largest, std::abs(value));
  return largest;
}

// The largest error as a fraction of the largest magnitude. A tolerance of zero means the op moves
// values: then the one rounding of an accumulation is part of what is expected.
double relative_error(const Array& got, const Array& expected, DType dtype, bool exact) {
  double error = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    const double want = exact ? rounded(expected.values[i], dtype) : expected.values[i];
    const double difference = std::abs(got.values[i] - want);
    if (!(difference <= error)) error = difference;  // a NaN counts
  }
  const double scale = largest_magnitude(expected);
  return scale > 0 ? error / scale : error;
}

void check_values(const OpCase& test, const Arrays& got, const Arrays& expected) {
  const Tolerance& tolerance = op_info(test.kind).tolerance;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool bf16 = std::count(test.in_types.begin(), test.in_types.end(), DType::kBF16) > 0 ||
                      std::count(test.out_types.begin(), test.out_types.end(), DType::kBF16) > 0;
    const double limit = bf16 ? tolerance.bf16 : tolerance.f32;
    const double error = relative_error(got[i], expected[i], test.out_types[i], limit == 0);
    EXPECT_LE(error, limit) << "output " << i;
    if (std::getenv("SPILLWAY_PRINT_ERRORS") != nullptr) {  // what tolerances are chosen from
      fmt::print("{:<18} out {} {:<5} {:.2e}\n", op_info(test.kind).name, i, bf16 ? "bf16" : "f32",
                 error);
    }
  }
}

// What outputs hold before a run that accumulates.
Arrays random_before(const OpCase& test, const Arrays& results) {
  Random random(7);
  Arrays before;
  for (size_t i = 0; i < results.size(); ++i) {
    before.push_back(random.normal(results[i].shape, test.out_types[i]));
  }
  return before;
}

void check_bits(const OpCase& test, const Arrays& before, bool accumulate,
                const OutputBytes& expected) {
  for (int threads : {1, 2, 3}) {
    EXPECT_TRUE(run_on_cpu(test, before, accumulate, threads).bytes == expected)
        << "bits differ with " << threads << " threads";
  }
}

}  // namespace

double rounded(double value, DType dtype) {
  if (dtype == DType::kI32) return value;
  const auto f32 = static_cast<float>(value);
  return dtype == DType::kF32 ? f32 : cpu::from_bf16(cpu::to_bf16(f32));
}

Array Random::normal(Shape shape, DType dtype) {
  Array array(std::move(shape));
  std::normal_distribution<double> normal;
  for (double& value : array.values) value = rounded(normal(engine_), dtype);
  return array;
}

Array Random::integers(Shape shape, int64_t begin, int64_t end) {
  Array array(std::move(shape));
  std::uniform_int_distribution<int64_t> uniform(begin, end - 1);
  for (double& value : array.values) value = static_cast<double>(uniform(engine_));
  return array;
}

void OpCase::add_input(Array values, DType dtype) {
  for (double& value : values.values) value = rounded(value, dtype);
  in.push_back(std::move(values));
  in_types.push_back(dtype);
}

std::string OpCase::text() const {
  std::string text(op_info(kind).name);
  for (size_t i = 0; i < in.size(); ++i) {
    text += fmt::format(" {}[{}]", name_of(in_types[i]), fmt::join(in[i].shape, ","));
  }
  text += " ->";
  for (DType dtype : out_types) text += fmt::format(" {}", name_of(dtype));
  for (const auto& [attr, value] : attrs.list()) text += fmt::format(" {}={}", name_of(attr), value);
  return text;
}

OpRun run_on_cpu(const OpCase& test, const Arrays& outputs_before, bool accumulate, int threads) {
  cpu::Scratch scratch;
  cpu::BoundOp op{.kind = test.kind, .in = {}, .out = {},
                  .accumulate = std::vector<bool>(test.out_types.size(), accumulate),
                  .attrs = test.attrs, .threads = threads, .scratch = &scratch};
  std::vector<GuardedTensor> in, out;
  OutputBytes inputs_before;
  in.reserve(test.in.size());
  out.reserve(test.out_types.size());
  for (size_t i = 0; i < test.in.size(); ++i) {
    in.emplace_back(test.in[i].shape, test.in_types[i]);
    in.back().write(test.in[i].values);
    op.in.push_back(in.back().ref());
    inputs_before.push_back(in.back().bytes());
  }
  for (size_t i = 0; i < test.out_types.size(); ++i) {
    out.emplace_back(outputs_before[i].shape, test.out_types[i]);
    if (accumulate || !test.before.empty()) out.back().write(outputs_before[i].values);
    op.out.push_back(out.back().ref());
  }
  const cpu::Kernel kernel = cpu::bind(op);
  scratch.allocate();
  if (scratch.bytes() > 0) std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes()));
  kernel();
  OpRun result;
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_TRUE(in[i].bytes() == inputs_before[i]) << "input " << i << " was changed";
  }
  for (const GuardedTensor& tensor : out) {
    EXPECT_TRUE(tensor.guards_intact()) << "written outside an output";
    result.bytes.push_back(tensor.bytes());
    result.out.push_back(tensor.read());
  }
  return result;
}

void check(const OpCase& test) {
  SCOPED_TRACE(test.text());
  Arrays in = test.in;
  in.insert(in.end(), test.before.begin(), test.before.end());
  Arrays expected = reference(test.kind, in, test.attrs);
  if (!test.before.empty()) {
    const OpRun run = run_on_cpu(test, test.before, true, 1);
    check_values(test, run.out, expected);
    check_bits(test, test.before, true, run.bytes);
    return;
  }
  const OpRun written = run_on_cpu(test, expected, false, 1);
  check_values(test, written.out, expected);
  check_bits(test, expected, false, written.bytes);
  const Arrays before = random_before(test, expected);
  const OpRun added = run_on_cpu(test, before, true, 1);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].values.size(); ++j) {
      expected[i].values[j] += before[i].values[j];
    }
  }
  check_values(test, added.out, expected);
  check_bits(test, before, true, added.bytes);
}

}  // namespace spillway
