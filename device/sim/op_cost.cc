#include "device/sim/op_cost.h"

#include <algorithm>
#include <map>

#include "device/sim/tables.h"

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

// Ranks of a group by NVLink domain.
struct Span {
  int inside = 0, domains = 0;  // ranks in this rank's domain; domains of the group
};

// A job takes equal parts of as few domains as hold it, in whole nodes: 128 ranks take 64 of two racks'
// 72 GPUs each.
Span span_of(const Mesh& mesh, uint8_t axes, const Hardware& hardware) {
  const int domains = (mesh.ranks() + hardware.gpus_per_domain - 1) / hardware.gpus_per_domain;
  const int nodes = (mesh.ranks() + hardware.gpus_per_node - 1) / hardware.gpus_per_node;
  const int part = (nodes + domains - 1) / domains * hardware.gpus_per_node;
  std::map<int, int> by_domain;
  for (int rank : mesh.group(axes)) ++by_domain[rank / part];
  return {by_domain.at(mesh.rank() / part), static_cast<int>(by_domain.size())};
}

}  // namespace

OpCosts::OpCosts(const Hardware& hardware, const Mesh& mesh, const Schedule& schedule)
    : hardware_(hardware), mesh_(mesh), schedule_(schedule) {}

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

Cost OpCosts::copy(const Instr& instr) const {
  const bool to_host = is_copy_to_host(schedule_, instr);
  const double rate = (to_host ? hardware_.d2h_gb_per_s : hardware_.h2d_gb_per_s).value * 1e9;
  Cost cost{.seconds = bytes_of(in(instr, 0)) / rate + hardware_.launch_us.value * 1e-6};
  cost.of(to_host ? Resource::kLinkOut : Resource::kLinkIn) = 1;
  cost.of(Resource::kHbm) = rate / (hardware_.hbm_gb_per_s.value * 1e9);
  cost.of(Resource::kHostMemory) =
      rate * hardware_.gpus_per_socket / (hardware_.host_gb_per_s_per_socket.value * 1e9);
  return cost;
}

// Inside a domain the measured tables; what leaves it passes the NICs of the ranks in it, at the same
// time.
Cost OpCosts::collective(const Instr& instr) const {
  const auto axes = static_cast<uint8_t>(instr.op.attrs.integer(Attr::kAxes));
  const Span span = span_of(mesh_, axes, hardware_);
  const CollectiveKind kind = kind_of(instr.op.kind);
  double whole = std::max(bytes_of(in(instr, 0)), bytes_of(out(instr, 0)));
  if (kind == CollectiveKind::kAllToAll) whole = std::min(bytes_of(in(instr, 0)), bytes_of(out(instr, 0)));
  const double inside = collective_seconds(hardware_.collectives, kind, span.inside, whole);
  double leaving = whole * (span.domains - 1) / span.domains;  // through this rank's NIC
  if (kind != CollectiveKind::kAllToAll) leaving /= span.inside;
  if (kind == CollectiveKind::kAllReduce) leaving *= 2;
  const double nic = span.domains == 1 ? 0
                                       : leaving / (hardware_.nic_gb_per_s.value * 1e9) +
                                             hardware_.nic_latency_us.value * 1e-6;
  Cost cost{.seconds = std::max(inside, nic) + hardware_.launch_us.value * 1e-6};
  cost.of(Resource::kMultiprocessors) = hardware_.collective_sm_share.value;
  cost.of(Resource::kNvlink) = inside / cost.seconds;
  cost.of(Resource::kNic) = nic / cost.seconds;
  const double moved = bytes_of(in(instr, 0)) + bytes_of(out(instr, 0));
  cost.of(Resource::kHbm) =
      std::min(1.0, moved / (hardware_.hbm_gb_per_s.value * 1e9) / cost.seconds);
  return cost;
}

const Table<MatmulRow>& OpCosts::matmul(const Instr& instr) const {
  return instr.op.attrs.has(Attr::kFp8) ? hardware_.fp8_matmul : hardware_.bf16_matmul;
}

double OpCosts::product_seconds(const Instr& instr, double flops) const {
  const double m = dim(out(instr, 0), 0), n = dim(out(instr, 0), 1), k = flops / 2 / m / n;
  return flops / matmul_flop_per_s(matmul(instr), m, n, k);
}

double OpCosts::grouped_seconds(const Instr& instr) const {
  const bool wgrad = instr.op.kind == kGroupedLinearWgrad;
  const Buffer& weight = wgrad ? out(instr, 0) : in(instr, 1);
  const double experts = dim(weight, 0), n = dim(weight, 1), k = dim(weight, 2);
  const Attrs& attrs = instr.op.attrs;
  const double rows = attrs.has(Attr::kRows) ? attrs.real(Attr::kRows) : dim(in(instr, 0), 0);
  const Pass pass = wgrad                                    ? Pass::kWgrad
                    : instr.op.kind == kGroupedLinearDgrad ? Pass::kDgrad
                                                             : Pass::kForward;
  const double m = rows / experts;
  double rate = grouped_flop_per_s(hardware_.bf16_grouped, pass, experts, m, n, k);
  if (instr.op.attrs.has(Attr::kFp8)) {  // nobody's table has it: as much faster as a single product
    rate *= matmul_flop_per_s(hardware_.fp8_matmul, m, n, k) /
            matmul_flop_per_s(hardware_.bf16_matmul, m, n, k);
  }
  return 2 * rows * n * k / rate;
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
  return flops / attention_flop_per_s(hardware_.bf16_attention, instr.op.kind == kAttentionBwd,
                                      attrs.real(Attr::kHeadDim), attrs.real(Attr::kVHeadDim),
                                      attrs.real(Attr::kSeq));
}

// The longer of arithmetic and memory, and a launch.
Cost OpCosts::compute(const Instr& instr) const {
  const auto flops = static_cast<double>(instr_flops(schedule_, instr));
  const auto bytes = static_cast<double>(instr_bytes(schedule_, instr));
  const double hbm = hardware_.hbm_gb_per_s.value * 1e9;
  double arithmetic = 0;
  double memory = bytes / (hbm * hardware_.hbm_fraction.value);
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
    default: break;
  }
  if (arithmetic > 0) memory = bytes / hbm;
  Cost cost{.seconds = std::max(arithmetic, memory) + cast_seconds(instr) +
                       hardware_.launch_us.value * 1e-6};
  cost.of(Resource::kMultiprocessors) = 1;
  cost.of(Resource::kHbm) = std::min(1.0, bytes / hbm / cost.seconds);
  return cost;
}

double SimCostModel::seconds(const Schedule& schedule, const Instr& instr) const {
  return OpCosts(hardware_, mesh_, schedule)(instr).seconds;
}

}  // namespace spillway::sim
