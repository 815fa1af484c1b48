// Rows to the ranks of their experts, and back. A message is a segment of rows, sent from its place
// straight to its place.
#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "device/cpu/expert_layout.h"
#include "device/cpu/kernels.h"
#include "device/cpu/move.h"

namespace spillway::cpu {
namespace {

struct RowExchange {
  TensorRef at_source, at_receiver;  // [R,d], [B,d]
  ExpertLayout layout;
  int64_t part, row_bytes;
  int threads;
  bool back, drop;
  Group group;
  std::vector<Send> sends;
  std::vector<Receive> receives;

  RowExchange(const BoundOp& op, bool returns)
      : at_source(returns ? op.out[0] : op.in[0]), at_receiver(returns ? op.in[0] : op.out[0]),
        layout(op, op.in[1]), part(op.attrs.integer(Attr::kPart)),
        row_bytes(at_source.width() * size_of(at_source.dtype)), threads(op.threads), back(returns),
        drop(op.attrs.integer(Attr::kDrop) != 0),
        group(*op.communicator, static_cast<uint8_t>(op.attrs.integer(Attr::kAxes))) {
    sends.reserve(static_cast<size_t>(layout.experts));
    receives.reserve(static_cast<size_t>(layout.experts));
  }

  void operator()() {
    if (!drop) check_room();
    sends.clear();
    receives.clear();
    for (int q = 0; q < layout.parts; ++q) {
      const int64_t rows = layout.for_each_segment(q, [&](const ExpertSegment& segment) {
        if (segment.source == part) add_at_source(q, segment);
        if (q == part) add_at_receiver(segment);
      });
      if (q == part && !back) clear_rows(at_receiver, std::min(rows, layout.room), threads);
    }
    if (back) clear_rows(at_source, layout.rows_of(static_cast<int>(part)), threads);
    group.exchange(sends, receives);
  }

  // Every rank sees the same numbers for all of them: either all go on, or all stop.
  void check_room() const {
    for (int64_t q = 0; q < layout.parts; ++q) {
      const int64_t rows = layout.rows_for(q);
      if (rows <= layout.room) continue;
      throw std::runtime_error(fmt::format(
          "{} rows are for the experts of rank {} of {} in their group, which has room for {}: set "
          "parallel.expert_rows larger, or parallel.overflow: drop",
          rows, q, layout.parts, layout.room));
    }
  }

  void add_at_source(int receiver, const ExpertSegment& segment) {
    add(receiver, at_source, segment.from, segment.rows, !back);
    const int64_t width = at_source.width();
    if (back) clear(at_source, (segment.from + segment.rows) * width, segment.left_out * width);
  }

  void add_at_receiver(const ExpertSegment& segment) {
    add(segment.source, at_receiver, segment.to, segment.rows, back);
  }

  void add(int peer, const TensorRef& tensor, int64_t row, int64_t rows, bool send) {
    if (rows == 0) return;
    std::byte* data = static_cast<std::byte*>(tensor.data) + row * row_bytes;
    if (send) sends.push_back({peer, data, rows * row_bytes});
    if (!send) receives.push_back({peer, data, rows * row_bytes});
  }
};

}  // namespace

Kernel bind_exchange_rows(const BoundOp& op) { return RowExchange(op, false); }

Kernel bind_return_rows(const BoundOp& op) { return RowExchange(op, true); }

}  // namespace spillway::cpu
