#include "device/sim/op_cost.h"

#include <algorithm>

namespace spillway::sim {
namespace {

using enum OpKind;

double bytes_of(const Buffer& buffer) { return static_cast<double>(buffer.bytes()); }
double dim(const Buffer& buffer, size_t i) { return static_cast<double>(buffer.shape.at(i)); }

CollectiveKind kind_of(OpKind op) {
  switch (op) {
    case kAllGather: return CollectiveKind::kAllGather;
    case kReduceScatter: return CollectiveKind::kReduceScatter;
    case kAllReduce: return CollectiveKind::kAllReduce;
    default: return CollectiveKind::kAllToAll;
  }
}

Operands operands_of(const Schedule& schedule, const Instr& instr) {
  if (instr.op.attrs.has(Attr::kFp8)) return Operands::kFp8;
  const auto f32 = [&](size_t i) {
    return schedule.buffers[static_cast<size_t>(instr.op.in.at(i))].dtype == DType::kF32;
  };
  return f32(0) && f32(1) ? Operands::kF32 : Operands::kBF16;
}

// Before an instruction does anything.
double start_seconds(const Instr& instr, const Hardware& hardware) {
  return 1e-6 * (hardware.launch_us.value + (instr.waits.empty() ? 0 : hardware.wait_us.value));
}

}  // namespace

void Cost::stretch(double longer) {
  if (longer <= seconds) return;
  for (size_t r = 0; r < kResourceCount; ++r) {
    if (r != static_cast<size_t>(Resource::kMultiprocessors)) share[r] *= seconds / longer;
  }
  seconds = longer;
}

const Buffer& OpCosts::in(const Instr& instr, size_t i) const {
  return schedule_.buffers[static_cast<size_t>(instr.op.in.at(i))];
}

const Buffer& OpCosts::out(const Instr& instr, size_t i) const {
  return schedule_.buffers[static_cast<size_t>(instr.op.out.at(i))];
}

Cost OpCosts::operator()(const Instr& instr) const {
  if (instr.op.kind == kFree) return {};
  if (instr.op.kind == kCopy) return copy(instr);
  if (is_collective(instr.op.kind)) return collective(instr);
  return compute(instr);
}

// At the link's rate, or what the socket's memory has for this GPU, where that is less.
Cost OpCosts::copy(const Instr& instr) const {
  const bool to_host = is_copy_to_host(schedule_, instr);
  const double link = 1e9 * (to_host ? hardware_.d2h_gb_per_s : hardware_.h2d_gb_per_s).value *
                      (assumptions_.far_socket ? hardware_.far_socket_fraction.value : 1);
  const double host = 1e9 * hardware_.host_gb_per_s_per_socket.value / hardware_.gpus_per_socket;
  const double hbm = 1e9 * hardware_.hbm_gb_per_s.value;
  const double rate = std::min({link, host, hbm});
  Cost cost{.seconds = bytes_of(in(instr, 0)) / rate + start_seconds(instr, hardware_)};
  cost.of(to_host ? Resource::kLinkOut : Resource::kLinkIn) = 1;
  cost.of(Resource::kHbm) = rate / hbm;
  cost.of(Resource::kHostMemory) = rate / host;
  cost.of(Resource::kMultiprocessors) =
      (assumptions_.kernel_copies ? hardware_.collective_sm_share : hardware_.copy_sm_share).value;
  return cost;
}

// Bytes of a collective as tables count them (CollectiveRow). A rank whose experts get more rows than it
// sends takes longer, up to what its buffer holds; one whose get fewer still sends its own.
double OpCosts::exchanged_bytes(const Instr& instr) const {
  const auto [least, most] = std::minmax({bytes_of(in(instr, 0)), bytes_of(out(instr, 0))});
  if (kind_of(instr.op.kind) != CollectiveKind::kAllToAll) return most;
  return std::clamp(least * ranks_.expert_load, least, most);
}

// Inside a domain the measured tables; what leaves it passes the NICs of the ranks in it, at the same
// time.
Cost OpCosts::collective(const Instr& instr) const {
  const Span& span = ranks_.spans.at(static_cast<size_t>(instr.op.attrs.integer(Attr::kAxes)));
  const CollectiveKind kind = kind_of(instr.op.kind);
  const double whole = exchanged_bytes(instr);
  const double inside = rates_.collective_seconds(kind, span.inside, whole);
  double leaving = whole * (span.domains - 1) / span.domains;  // through this rank's NIC
  if (kind != CollectiveKind::kAllToAll) leaving /= span.inside;
  if (kind == CollectiveKind::kAllReduce) leaving *= 2;
  const double nic = span.domains == 1 ? 0
                                       : leaving / (hardware_.nic_gb_per_s.value * 1e9) +
                                             hardware_.nic_latency_us.value * 1e-6;
  Cost cost{.seconds = std::max(inside, nic) + start_seconds(instr, hardware_)};
  cost.of(Resource::kMultiprocessors) = hardware_.collective_sm_share.value;
  cost.of(Resource::kNvlink) = inside / cost.seconds;
  cost.of(Resource::kNic) = nic / cost.seconds;
  const double moved = bytes_of(in(instr, 0)) + bytes_of(out(instr, 0));
  cost.of(Resource::kHbm) =
      std::min(1.0, moved / (hardware_.hbm_gb_per_s.value * 1e9) / cost.seconds);
  return cost;
}

double OpCosts::product_seconds(const Instr& instr, double flops) const {
  const double m = dim(out(instr, 0), 0), n = dim(out(instr, 0), 1), k = flops / 2 / m / n;
  return flops / rates_.matmul(operands_of(schedule_, instr), m, n, k);
}

double OpCosts::grouped_seconds(const Instr& instr) const {
  const bool wgrad = instr.op.kind == kGroupedLinearWgrad;
  const Buffer& weight = wgrad ? out(instr, 0) : in(instr, 1);
  const double experts = dim(weight, 0), n = dim(weight, 1), k = dim(weight, 2);
  const Attrs& attrs = instr.op.attrs;
  double rows = dim(in(instr, 0), 0);
  if (attrs.has(Attr::kRows)) rows = std::min(rows, attrs.real(Attr::kRows) * ranks_.expert_load);
  const Pass pass = wgrad                                    ? Pass::kWgrad
                    : instr.op.kind == kGroupedLinearDgrad ? Pass::kDgrad
                                                             : Pass::kForward;
  const double m = rows / experts;
  double rate = rates_.grouped(pass, experts, m, n, k);
  if (instr.op.attrs.has(Attr::kFp8)) {  // nobody's table has it: as much faster as a single product
    rate *= rates_.matmul(Operands::kFp8, m, n, k) / rates_.matmul(Operands::kBF16, m, n, k);
  }
  return 2 * rows * n * k / rate;
}

// Products with a mask [tokens, slots]: one forward, one for the gradient of the rows, and one for that
// of combine's weights.
double OpCosts::one_hot_seconds(const Instr& instr) const {
  if (assumptions_.one_hot_slots == 0) return 0;
  const OpKind kind = instr.op.kind;
  if (kind != kDispatch && kind != kDispatchBwd && kind != kCombine && kind != kCombineBwd) return 0;
  const bool to_rows = kind == kDispatch || kind == kCombineBwd;
  const Buffer& tokens = kind == kDispatch ? in(instr, 0) : kind == kCombineBwd ? in(instr, 3) : out(instr, 0);
  const double t = dim(tokens, 0), d = dim(tokens, 1), slots = assumptions_.one_hot_slots;
  const Operands operands = assumptions_.one_hot_fp8 ? Operands::kFp8 : Operands::kBF16;
  const double rate = to_rows ? rates_.matmul(operands, slots, d, t) : rates_.matmul(operands, t, d, slots);
  return (kind == kCombineBwd ? 2 : 1) * 2 * t * slots * d / rate / hardware_.sustained_fraction.value;
}

// Operands of an fp8 product are narrowed by passes of their own, which read two bytes and write one; the
// gradient of a result once for both of its products.
double OpCosts::cast_seconds(const Instr& instr) const {
  if (!instr.op.attrs.has(Attr::kFp8)) return 0;
  const bool wgrad =
      instr.op.kind == kLinearWgrad || instr.op.kind == kGroupedLinearWgrad;
  const double rows = instr.op.attrs.has(Attr::kRows)
                          ? instr.op.attrs.real(Attr::kRows) / dim(in(instr, 0), 0)
                          : 1;  // of a bound on the rows of experts, those that are expected
  const double first = wgrad ? 0 : rows * bytes_of(in(instr, 0));
  const double second = (wgrad ? rows : 1) * bytes_of(in(instr, 1));
  return 1.5 * (first + second) /
         (hardware_.hbm_gb_per_s.value * 1e9 * hardware_.hbm_fraction.value);
}

double OpCosts::attention_seconds(const Instr& instr, double flops) const {
  const Attrs& attrs = instr.op.attrs;
  return flops / rates_.attention(instr.op.kind == kAttentionBwd, attrs.real(Attr::kHeadDim),
                                  attrs.real(Attr::kVHeadDim), attrs.real(Attr::kSeq));
}

// The longer of arithmetic and memory, and a launch.
Cost OpCosts::compute(const Instr& instr) const {
  const auto flops = static_cast<double>(instr_flops(schedule_, instr));
  const auto bytes = static_cast<double>(instr_bytes(schedule_, instr));
  const double hbm = hardware_.hbm_gb_per_s.value * 1e9;
  double arithmetic = 0;
  const double achieved = rates_.memory_op(instr.op.kind, bytes);
  double memory = bytes / (achieved > 0 ? achieved : hbm * hardware_.hbm_fraction.value);
  switch (instr.op.kind) {
    case kLinear:
    case kLinearDgrad:
    case kLinearWgrad:
      arithmetic = product_seconds(instr, flops) / hardware_.sustained_fraction.value;
      break;
    case kGroupedLinear:
    case kGroupedLinearDgrad:
    case kGroupedLinearWgrad: arithmetic = grouped_seconds(instr); break;
    case kAttention:
    case kAttentionBwd: arithmetic = attention_seconds(instr, flops); break;
    default: arithmetic = one_hot_seconds(instr);
  }
  if (arithmetic > 0) memory = bytes / hbm;
  Cost cost{.seconds = std::max(arithmetic, memory) + cast_seconds(instr) +
                       start_seconds(instr, hardware_)};
  cost.of(Resource::kMultiprocessors) = 1;
  cost.of(Resource::kHbm) = std::min(1.0, bytes / hbm / cost.seconds);
  return cost;
}

SimCostModel::SimCostModel(const Hardware& hardware, const Mesh& mesh,
                           const Assumptions& assumptions)
    : hardware_(hardware), rates_(hardware), ranks_(balanced_rank(hardware, mesh)),
      assumptions_(assumptions) {}

double SimCostModel::seconds(const Schedule& schedule, const Instr& instr) const {
  return OpCosts(hardware_, rates_, ranks_, schedule, assumptions_)(instr).seconds;
}

}  // namespace spillway::sim
