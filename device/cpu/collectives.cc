// Gathering and summing over the ranks of a group. The World moves bytes; sums are made here, in
// f32 (i32 in i32) and in rank order, so that every rank has the same bits whatever the engine.
#include "device/cpu/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"

namespace spillway::cpu {
namespace {

using enum OpKind;

constexpr int64_t kStagingBytes = int64_t{16} << 20;  // at most, for what peers send
// Of one peer's message: the sum finds it in cache, and a message's fixed cost is small beside it.
constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kSmallBytes = int64_t{64} << 10;

float widen(float value) { return value; }
float widen(uint16_t bits) { return from_bf16(bits); }
uint32_t widen(int32_t value) { return static_cast<uint32_t>(value); }  // wraps around
template <class T, class Sum>
T narrow(Sum sum) {
  if constexpr (sizeof(T) == 2) return to_bf16(sum);
  return static_cast<T>(sum);
}

std::byte* byte_at(const TensorRef& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.data) + element * size_of(tensor.dtype);
}

template <class T, class Sum>
void set(Sum* sum, const T* x, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = widen(x[i]);
}

// Inlined into the loop over ranks g++ 12 reads by gathers, and bf16 takes three times as long.
template <class T, class Sum>
[[gnu::noinline]] void add(Sum* sum, const T* x, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] += widen(x[i]);
}

// y[at, at + count) = the sum of x_0, x_1, ..., or added there; rounded once. y may be one of them.
template <class T>
void sum_block(const std::vector<const std::byte*>& x, int64_t at, int64_t count, T* y,
               bool accumulate) {
  decltype(widen(T{})) sum[kBlock];
  const auto values = [&](size_t rank) { return reinterpret_cast<const T*>(x[rank]) + at; };
  set(sum, values(0), count);
  for (size_t rank = 1; rank < x.size(); ++rank) add(sum, values(rank), count);
  if (accumulate) add(sum, y + at, count);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[at + i] = narrow<T>(sum[i]);
}

struct Sum {
  DType dtype;
  bool accumulate;
  int threads;

  void operator()(const std::vector<const std::byte*>& x, int64_t count, std::byte* y) const {
    for_each_block(count, threads, [&](int64_t at, int64_t run) {
      switch (dtype) {
        case DType::kF32: sum_block(x, at, run, reinterpret_cast<float*>(y), accumulate); break;
        case DType::kBF16: sum_block(x, at, run, reinterpret_cast<uint16_t*>(y), accumulate); break;
        case DType::kI32: sum_block(x, at, run, reinterpret_cast<int32_t*>(y), accumulate); break;
      }
    });
  }
};

int64_t floats(int64_t bytes) { return ceil_div(bytes, int64_t{sizeof(float)}); }

Group group_of(const BoundOp& op) {
  return {*op.communicator, static_cast<uint8_t>(op.attrs.integer(Attr::kAxes))};
}

// Messages between this rank and all others, and where the values of each rank are for a sum.
struct Peers {
  Group group;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<const std::byte*> values;

  explicit Peers(const BoundOp& op)
      : group(group_of(op)), sends(static_cast<size_t>(group.size() - 1)),
        receives(sends.size()), values(static_cast<size_t>(group.size())) {}

  // send(rank) says what goes to a rank; `bytes` come from everybody, to the staging area, `stride`
  // apart. `mine` are the own values. Everyone begins with its next neighbour.
  template <class F>
  void exchange(const std::byte* mine, std::byte* staging, int64_t stride, int64_t bytes,
                const F& send) {
    const int ranks = group.size(), self = group.index();
    values[static_cast<size_t>(self)] = mine;
    for (int step = 1; step < ranks; ++step) {
      const int from = (self + ranks - step) % ranks;
      std::byte* place = staging + (step - 1) * stride;
      values[static_cast<size_t>(from)] = place;
      sends[static_cast<size_t>(step - 1)] = send((self + step) % ranks);
      receives[static_cast<size_t>(step - 1)] = {from, place, bytes};
    }
    group.exchange(sends, receives);
  }
};

// Every rank gets its part of x from all others, a piece at a time, and sums it.
struct PartSum {
  TensorRef x;
  Peers peers;
  Sum sum;
  int64_t part_elements, piece;  // of each part, the last ones may have less; of a message
  Workspace staging;

  PartSum(const BoundOp& op, bool accumulate)
      : x(op.in[0]), peers(op), sum{x.dtype, accumulate, op.threads},
        part_elements(ceil_div(x.elements(), peers.group.size())), piece(piece_of(peers, x)),
        staging(op, floats(piece * size_of(x.dtype) * (peers.group.size() - 1)), 0) {}

  static int64_t piece_of(const Peers& peers, const TensorRef& x) {
    const int64_t others = std::max(1, peers.group.size() - 1);
    const int64_t bytes = std::min(kPieceBytes, kStagingBytes / others);
    const int64_t part = ceil_div(x.elements(), peers.group.size());
    return std::min(part, std::max<int64_t>(bytes / size_of(x.dtype) / kBlock, 1) * kBlock);
  }

  [[nodiscard]] Part part(int rank, int64_t at) const {
    const Part whole = part_of(x.elements(), peers.group.size(), rank);
    const int64_t begin = std::min(whole.begin + at, whole.end);
    return {begin, std::min(begin + piece, whole.end)};
  }

  [[nodiscard]] Part mine() const {
    return part_of(x.elements(), peers.group.size(), peers.group.index());
  }

  // y = own part of the sum. y may be that part of x.
  void operator()(std::byte* y) {
    const int64_t size = size_of(x.dtype);
    for (int64_t at = 0; at < part_elements; at += piece) {
      const auto [begin, end] = part(peers.group.index(), at);
      auto* place = reinterpret_cast<std::byte*>(staging.shared());
      const auto send = [&](int rank) {
        const Part theirs = part(rank, at);
        return Send{rank, byte_at(x, theirs.begin), (theirs.end - theirs.begin) * size};
      };
      peers.exchange(byte_at(x, begin), place, piece * size, (end - begin) * size, send);
      sum(peers.values, end - begin, y + at * size);
    }
  }
};

// Everybody sends everything to everybody: one exchange.
struct WholeSum {
  TensorRef x, y;
  Peers peers;
  Sum sum;
  Workspace staging;

  explicit WholeSum(const BoundOp& op)
      : x(op.in[0]), y(op.out[0]), peers(op), sum{x.dtype, false, op.threads},
        staging(op, floats(bytes() * (peers.group.size() - 1)), 0) {}

  [[nodiscard]] int64_t bytes() const { return x.elements() * size_of(x.dtype); }

  void operator()() {
    peers.exchange(byte_at(x, 0), reinterpret_cast<std::byte*>(staging.shared()), bytes(), bytes(),
                   [&](int rank) { return Send{rank, x.data, bytes()}; });
    sum(peers.values, x.elements(), byte_at(y, 0));
  }
};

std::string misfit_of_group(const BoundOp& op) {
  if (op.communicator == nullptr || op.communicator->world == nullptr) {
    return "this process is alone";
  }
  const auto axes = static_cast<uint8_t>(op.attrs.integer(Attr::kAxes));
  const Mesh& mesh = op.communicator->mesh;
  if (mesh.size(axes) != op.attrs.integer(Attr::kParts)) {
    return fmt::format("a group over {} has {} ranks, not {}", axes_text(axes), mesh.size(axes),
                       op.attrs.integer(Attr::kParts));
  }
  if (op.attrs.has(Attr::kPart) && mesh.index(axes) != op.attrs.integer(Attr::kPart)) {
    return fmt::format("this is rank {} of its group, not {}", mesh.index(axes),
                       op.attrs.integer(Attr::kPart));
  }
  return "";
}

}  // namespace

std::string unsupported_collective(const BoundOp& op) {
  if (std::string why = misfit_of_group(op); !why.empty()) return why;
  if (op.in[0].dtype != op.out[0].dtype) return "its input and its output have different types";
  if (op.accumulate[0] && op.kind != kReduceScatter) return "it cannot add to its output";
  if (op.kind == kExchangeRows || op.kind == kReturnRows) {
    const int64_t rows = (op.kind == kExchangeRows ? op.out[0] : op.in[0]).rows();
    const int64_t stated = op.attrs.integer(Attr::kRows);
    return rows == stated ? "" : fmt::format("it has {} rows, and says {}", rows, stated);
  }
  const int64_t in = op.in[0].elements(), out = op.out[0].elements();
  const int64_t parts = op.kind == kAllReduce ? 1 : op.attrs.integer(Attr::kParts);
  const int64_t whole = op.kind == kAllGather ? out : in, part = op.kind == kAllGather ? in : out;
  if (ceil_div(whole, parts) == part) return "";
  return fmt::format("of {} elements in {} parts one part has {}, not {}", whole, parts,
                     ceil_div(whole, parts), part);
}

Kernel bind_all_gather(const BoundOp& op) {
  return [x = op.in[0], y = op.out[0], group = group_of(op)]() mutable {
    group.all_gather(byte_at(x, 0), byte_at(y, 0), y.elements(), size_of(y.dtype));
  };
}

Kernel bind_reduce_scatter(const BoundOp& op) {
  PartSum part_sum(op, op.accumulate[0]);
  const int64_t exists = part_sum.mine().end - part_sum.mine().begin;
  return [part_sum = std::move(part_sum), y = op.out[0], exists]() mutable {
    part_sum(byte_at(y, 0));
    if (!part_sum.sum.accumulate) clear(y, exists, y.elements() - exists);
  };
}

Kernel bind_all_reduce(const BoundOp& op) {
  const int64_t bytes = op.in[0].elements() * size_of(op.in[0].dtype);
  if (bytes <= kSmallBytes && bytes * op.attrs.integer(Attr::kParts) <= kStagingBytes) {
    return WholeSum(op);
  }
  return [part_sum = PartSum(op, false), y = op.out[0]]() mutable {
    std::byte* mine = byte_at(y, part_sum.mine().begin);
    part_sum(mine);
    part_sum.peers.group.all_gather(mine, byte_at(y, 0), y.elements(), size_of(y.dtype));
  };
}

}  // namespace spillway::cpu
