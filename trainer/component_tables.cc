#include "trainer/component_tables.h"

#include <algorithm>

namespace spillway {
namespace {

using enum OpKind;

double dim(const Buffer& buffer, size_t i) { return static_cast<double>(buffer.shape.at(i)); }

}  // namespace

void ComponentTables::add_grouped(const Component& c, double seconds) {
  const bool wgrad = c.op().kind == kGroupedLinearWgrad;
  const Buffer& weight = wgrad ? c.out(0) : c.in(1);
  const Attrs& attrs = c.op().attrs;
  const double experts = dim(weight, 0);
  const double rows = attrs.has(Attr::kRows) ? attrs.real(Attr::kRows) : dim(c.in(0), 0);
  const size_t pass = wgrad ? 2 : c.op().kind == kGroupedLinearDgrad ? 1 : 0;
  grouped_[{experts, rows / experts, dim(weight, 1), dim(weight, 2)}][pass] = {
      static_cast<double>(c.flops()), seconds};
}

void ComponentTables::add(const Component& c, double seconds) {
  const auto flops = static_cast<double>(c.flops()), bytes = static_cast<double>(c.bytes());
  const auto sum = [&](Rate& rate, double work) {
    rate.work += work;
    rate.seconds += seconds;
  };
  switch (c.op().kind) {
    case kLinear:
    case kLinearDgrad:
    case kLinearWgrad: {
      const bool f32 = c.in(0).dtype == DType::kF32 && c.in(1).dtype == DType::kF32;
      const double m = dim(c.out(0), 0), n = dim(c.out(0), 1);
      return sum((f32 ? f32_ : bf16_)[{m, n, flops / 2 / m / n}], flops);
    }
    case kGroupedLinear:
    case kGroupedLinearDgrad:
    case kGroupedLinearWgrad: return add_grouped(c, seconds);
    case kAttention:
    case kAttentionBwd: {
      const Attrs& a = c.op().attrs;
      attention_[{a.real(Attr::kHeadDim), a.real(Attr::kVHeadDim), a.real(Attr::kSeq)}]
                [c.op().kind == kAttentionBwd ? 1 : 0] = {flops, seconds};
      return;
    }
    default: return sum(memory_[{c.op().kind, bytes}], bytes);
  }
}

namespace {

double fastest(const Hardware& h) {
  double best = 0;
  for (const MatmulRow& row : h.bf16_matmul.rows) best = std::max(best, row.tflops);
  for (const GroupedRow& row : h.bf16_grouped.rows) {
    best = std::max({best, row.tflops, row.dgrad_tflops, row.wgrad_tflops});
  }
  for (const AttentionRow& row : h.bf16_attention.rows) {
    best = std::max({best, row.tflops, row.bwd_tflops});
  }
  return best;
}

}  // namespace

void ComponentTables::fill(Hardware& h, const std::string& source) const {
  const auto products = [&](const std::map<Shape3, Rate>& rates) {
    Table<MatmulRow> table{.mark = Mark::kMeasured, .source = source};
    for (const auto& [s, rate] : rates) {
      table.rows.push_back({s[0], s[1], s[2], rate.per_second() * 1e-12});
    }
    return table;
  };
  h.bf16_matmul = products(bf16_);
  h.f32_matmul = products(f32_);
  h.bf16_grouped = {.mark = Mark::kMeasured, .source = source};
  for (const auto& [s, rate] : grouped_) {
    if (std::ranges::any_of(rate, [](const Rate& r) { return r.seconds == 0; })) continue;
    h.bf16_grouped.rows.push_back({s[0], s[1], s[2], s[3], rate[0].per_second() * 1e-12,
                                   rate[1].per_second() * 1e-12, rate[2].per_second() * 1e-12});
  }
  h.bf16_attention = {.mark = Mark::kMeasured, .source = source};
  for (const auto& [s, rate] : attention_) {
    if (std::ranges::any_of(rate, [](const Rate& r) { return r.seconds == 0; })) continue;
    h.bf16_attention.rows.push_back(
        {s[0], s[1], s[2], rate[0].per_second() * 1e-12, rate[1].per_second() * 1e-12});
  }
  h.memory_ops = {.mark = Mark::kMeasured, .source = source};
  double moved = 0;
  for (const auto& [key, rate] : memory_) {
    h.memory_ops.rows.push_back({key.first, key.second, rate.per_second() * 1e-9});
    moved = std::max(moved, rate.per_second() * 1e-9);
  }
  double f32 = 0;
  for (const MatmulRow& row : h.f32_matmul.rows) f32 = std::max(f32, row.tflops);
  h.bf16_tflops = {fastest(h), Mark::kMeasured, "the fastest row of the bf16 tables: " + source};
  h.f32_tflops = {f32, Mark::kMeasured, "the fastest row of f32_matmul: " + source};
  h.hbm_gb_per_s = {moved, Mark::kMeasured, "the fastest row of memory_ops: " + source};
}

}  // namespace spillway
