#include "parallel/shard.h"

#include <algorithm>
#include <map>

#include "parallel/layout.h"
#include "parallel/placement.h"
#include "program/error.h"
#include "program/op_table.h"
#include "program/verify.h"

namespace spillway {
namespace {

double number(int64_t value) { return static_cast<double>(value); }

class Sharder {
 public:
  Sharder(const Program& source, const Mesh& mesh, const ExpertBuffers& experts)
      : source_(source), mesh_(mesh), tensor_parts_(mesh.size(axis::kTensor)),
        expert_parts_(mesh.size(axis::kExpert)), experts_(experts),
        forms_(source.tensors.size()) {}

  Program run() {
    local_.name = source_.name;
    declare_lasting();
    if (source_.input != kNoTensor) local_.input = declare_stream(source_.input);
    list_ = &local_.forward;
    for (const Op& op : source_.forward) shard_op(op);
    if (source_.output != kNoTensor) local_.output = as(source_.output, Placement::kRows);
    list_ = &local_.backward;
    if (source_.d_output != kNoTensor) local_.d_output = declare_stream(source_.d_output);
    for (const Op& op : source_.backward) shard_op(op);
    if (source_.d_input != kNoTensor) local_.d_input = as(source_.d_input, Placement::kRows);
    verify(local_);
    return std::move(local_);
  }

 private:
  // What there is of a value of the source Program, by placement. `primary` is where it was defined or
  // last added to; others are forms of it.
  struct Forms {
    std::map<Placement, TensorId> by_placement;
    Placement primary = Placement::kOwn;
  };

  // ---- tensors --------------------------------------------------------------------------------------

  TensorId declare(Tensor tensor) {
    std::string name = tensor.name;
    for (int n = 2; local_.find(tensor.name) != kNoTensor; ++n) {
      tensor.name = name + "." + std::to_string(n);
    }
    local_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(local_.tensors.size()) - 1;
  }

  // Parameters, gradients, states, constants, step io.
  void declare_lasting() {
    for (size_t i = 0; i < source_.tensors.size(); ++i) {
      Tensor tensor = source_.tensors[i];
      if (tensor.kind == TensorKind::kValue) continue;
      if (tensor.kind == TensorKind::kParam || tensor.kind == TensorKind::kGrad || is_moment(i)) {
        const Layout layout = layout_of(tensor.shape, tensor.dims, mesh_);
        tensor.shape = layout.local_shape();
        tensor.shard_axes = layout.shard_axes;
      }
      define(static_cast<TensorId>(i), Placement::kOwn, declare(std::move(tensor)));
    }
  }

  // A state that belongs to a parameter, as a router's bias does not.
  [[nodiscard]] bool is_moment(size_t id) const {
    return std::ranges::any_of(source_.backward, [&](const Op& op) {
      return op.kind == OpKind::kAdamW &&
             std::ranges::find(op.out, static_cast<TensorId>(id)) != op.out.end();
    });
  }

  TensorId declare_stream(TensorId source) {
    Tensor tensor = source_.tensors[source];
    if (tensor.shape[0] % tensor_parts_ != 0) {
      throw VerifyError(tensor.name + " does not make equal parts of rows");
    }
    tensor.shape[0] /= tensor_parts_;
    const TensorId id = declare(std::move(tensor));
    define(source, Placement::kRows, id);
    return id;
  }

  void define(TensorId source, Placement placement, TensorId local) {
    forms_[source] = {.by_placement = {{placement, local}}, .primary = placement};
  }

  [[nodiscard]] Placement placement_of(TensorId source) const { return forms_[source].primary; }

  // ---- conversions ----------------------------------------------------------------------------------

  // The value in the placement asked for, made if need be in the list that is being written.
  TensorId as(TensorId source, Placement wanted) {
    Forms& forms = forms_[source];
    if (forms.primary == Placement::kOwn) return forms.by_placement.at(Placement::kOwn);
    if (tensor_parts_ == 1) return forms.by_placement.at(forms.primary);
    if (const auto found = forms.by_placement.find(wanted); found != forms.by_placement.end()) {
      return found->second;
    }
    TensorId made = kNoTensor;
    if (wanted == Placement::kRows && forms.by_placement.contains(Placement::kPartial)) {
      made = scatter(forms.by_placement.at(Placement::kPartial));
    } else if (wanted == Placement::kWhole && forms.primary != Placement::kColumns) {
      made = gather(as(source, Placement::kRows));
    } else {
      throw VerifyError(source_.name + ": " + source_.tensors[source].name + " has placement " +
                        static_cast<char>(forms.primary) + " and is needed as " +
                        static_cast<char>(wanted));
    }
    forms.by_placement[wanted] = made;
    return made;
  }

  void collective(OpKind kind, TensorId in, TensorId out, bool accumulate, uint8_t axes) {
    list_->push_back({.kind = kind, .in = {in}, .out = {out}, .accumulate = {accumulate},
                      .attrs = {{Attr::kAxes, number(axes)},
                                {Attr::kParts, number(mesh_.size(axes))}}});
  }

  // The sum of partial values, split by rows. It takes their name: that is what users know.
  TensorId scatter(TensorId partial) {
    Tensor sum = local_.tensors[partial];
    sum.shape[0] /= tensor_parts_;
    rename(partial, ".partial");
    const TensorId id = declare(std::move(sum));
    collective(OpKind::kReduceScatter, partial, id, false, axis::kTensor);
    return id;
  }

  TensorId gather(TensorId rows) {
    Tensor whole = local_.tensors[rows];
    whole.shape[0] *= tensor_parts_;
    whole.name += ".whole";
    whole.transient = true;
    const TensorId id = declare(std::move(whole));
    collective(OpKind::kAllGather, rows, id, false, axis::kTensor);
    return id;
  }

  void rename(TensorId id, const char* suffix) {
    local_.tensors[id].name += suffix;
    local_.tensors[id].transient = true;
  }

  // ---- ops ------------------------------------------------------------------------------------------

  void shard_op(const Op& op) {
    if (expert_parts_ > 1 && shard_expert_op(op)) return;
    if (tensor_parts_ > 1 && op.kind == OpKind::kCrossEntropy) return vocab_loss(op);
    emit(op);
  }

  [[nodiscard]] PlacementRule rule_of(const Op& op) const {
    if (tensor_parts_ == 1) return {"WWWWWWWW", "WWWWWWWW"};
    Placement first = op.in.empty() ? Placement::kOwn : placement_of(op.in[0]);
    if (op.kind == OpKind::kAdd && placement_of(op.in[1]) != first) first = Placement::kRows;
    return placement_rule(source_, op, first);
  }

  // `replaced`: the operand, if any, that is not the source's but `replacement`.
  Op local_op(const Op& op, const PlacementRule& rule, int replaced, TensorId replacement) {
    Op local = op;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const bool keeps = static_cast<int>(i) != replaced;
      local.in[i] = keeps ? as(op.in[i], static_cast<Placement>(rule.in[i])) : replacement;
    }
    if (tensor_parts_ == 1) return local;
    localize_attrs(local_, local, tensor_parts_);
    if (op.kind == OpKind::kEmbedding || op.kind == OpKind::kEmbeddingBwd) {
      const TensorId weight = op.kind == OpKind::kEmbedding ? op.in[1] : op.out[0];
      set_vocabulary(local, source_.tensors[weight].shape[0], false);
    }
    if (op.kind == OpKind::kCrossEntropyBwd) {
      set_vocabulary(local, source_.tensors[op.in[0]].shape[1], true);
    }
    return local;
  }

  // The tokens that this rank's part of the vocabulary has.
  void set_vocabulary(Op& op, int64_t vocab, bool with_end) const {
    const int64_t size = (vocab + tensor_parts_ - 1) / tensor_parts_;
    op.attrs.set(Attr::kBegin, number(mesh_.index(axis::kTensor) * size));
    if (with_end) op.attrs.set(Attr::kEnd, number(vocab));
  }

  void emit(const Op& op, int replaced = -1, TensorId replacement = kNoTensor) {
    const PlacementRule rule = rule_of(op);
    append(op, local_op(op, rule, replaced, replacement), rule.out);
  }

  // Appends `local` for the source's `op`: its outputs are declared here, or added to.
  void append(const Op& op, Op local, std::string_view placements) {
    const std::vector<Shape> shapes = output_shapes(op, local, placements);
    struct Late {
      TensorId partial, sum;
    };
    std::vector<Late> late;  // partial results to add to rows
    for (size_t i = 0; i < op.out.size(); ++i) {
      const TensorId source = op.out[i];
      const Tensor& of = source_.tensors[source];
      const auto placement = static_cast<Placement>(placements[i]);
      if (of.kind != TensorKind::kValue) {
        local.out[i] = as(source, Placement::kOwn);
      } else if (op.accumulate[i] && placement == Placement::kPartial &&
                 placement_of(source) == Placement::kRows) {
        Tensor part = of;
        part.name += ".partial";
        part.shape = shapes[i];
        local.out[i] = declare(std::move(part));
        local.accumulate[i] = false;
        late.push_back({local.out[i], as(source, Placement::kRows)});
        define(source, Placement::kRows, late.back().sum);
      } else if (op.accumulate[i]) {
        local.out[i] = as(source, placement);
        define(source, tensor_parts_ == 1 ? placement_of(source) : placement, local.out[i]);
      } else {
        Tensor value = of;
        value.shape = shapes[i];
        local.out[i] = declare(std::move(value));
        define(source, placement, local.out[i]);
      }
    }
    list_->push_back(std::move(local));
    for (const Late& add : late) {
      collective(OpKind::kReduceScatter, add.partial, add.sum, true, axis::kTensor);
    }
  }

  // The op's own shape rule on the local inputs, or where a gradient has none, the source's shape cut
  // by its placement.
  [[nodiscard]] std::vector<Shape> output_shapes(const Op& op, const Op& local,
                                                 std::string_view placements) const {
    std::vector<Shape> shapes;
    const OpInfo& info = op_info(local.kind);
    if (info.infer != nullptr) {
      std::vector<const Tensor*> in;
      for (TensorId id : local.in) in.push_back(&local_.tensors[id]);
      for (Tensor& tensor : info.infer(in, local.attrs, source_.tensors[op.out[0]].dtype)) {
        shapes.push_back(std::move(tensor.shape));
      }
      return shapes;
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      shapes.push_back(source_.tensors[op.out[i]].shape);
      const auto placement = static_cast<Placement>(placements[i]);
      if (placement == Placement::kRows) shapes.back()[0] /= tensor_parts_;
      if (placement == Placement::kColumns) shapes.back()[1] /= tensor_parts_;
    }
    if (op.kind == OpKind::kGroupedLinearDgrad) {
      shapes[0] = {local_.tensors[local.in[0]].shape[0], local_.tensors[local.in[1]].shape[2]};
    }
    return shapes;
  }

  // ---- the loss over a vocabulary in parts --------------------------------------------------------

  // loss, lse = cross_entropy(logits, targets, scalars)
  void vocab_loss(const Op& op) {
    Op stats{.kind = OpKind::kVocabStats, .in = {as(op.in[0], Placement::kColumns),
                                                as(op.in[1], Placement::kWhole)},
             .out = {}, .accumulate = {false}, .attrs = {}};
    set_vocabulary(stats, source_.tensors[op.in[0]].shape[1], true);
    const int64_t rows = local_.tensors[stats.in[0]].shape[0];
    const std::string name = source_.tensors[op.in[0]].name + ".stats";
    stats.out = {declare({.name = name, .dtype = DType::kF32, .shape = {rows, 2}})};
    const TensorId all = declare({.name = name + ".whole", .dtype = DType::kF32,
                                  .shape = {rows * tensor_parts_, 2}});
    list_->push_back(stats);
    collective(OpKind::kAllGather, stats.out[0], all, false, axis::kTensor);
    Op loss = op;
    loss.kind = OpKind::kVocabLoss;
    loss.in = {all, stats.in[1], as(op.in[2], Placement::kOwn)};
    append(op, std::move(loss), "-W");
  }

  // ---- experts on other ranks ---------------------------------------------------------------------

  bool shard_expert_op(const Op& op) {
    switch (op.kind) {
      case OpKind::kDispatchPlan: emit(op); plan_exchange(op); return true;
      case OpKind::kCountExperts: emit(op); count_overflow(op); return true;
      case OpKind::kDispatch: emit(op); arrive(op.out[0], ".sent"); return true;
      case OpKind::kCombineBwd: combine_bwd(op); return true;
      case OpKind::kCombine: emit(op, 0, returned(op.in[0])); return true;
      case OpKind::kDispatchBwd: emit(op, 0, returned(op.in[0])); return true;
      case OpKind::kGroupedLinear:
      case OpKind::kGroupedLinearDgrad:
      case OpKind::kGroupedLinearWgrad: {
        Op expecting = op;
        expecting.attrs.set(Attr::kRows, number(std::min(own_rows_, row_bound_)));
        emit(expecting, 2, local_offsets_);
        return true;
      }
      default: return false;
    }
  }

  [[nodiscard]] Attrs exchange_attrs() const {
    return {{Attr::kAxes, number(axis::kExpert)},
            {Attr::kParts, number(expert_parts_)},
            {Attr::kPart, number(mesh_.index(axis::kExpert))},
            {Attr::kRows, number(row_bound_)},
            {Attr::kDrop, experts_.drop ? 1.0 : 0.0}};
  }

  // order, offsets, place = dispatch_plan(experts): who sends what, and where it lands.
  void plan_exchange(const Op& op) {
    const int64_t rows = source_.tensors[op.out[0]].shape[0];  // a rank's own
    const int64_t all = rows * expert_parts_;
    own_rows_ = rows;
    row_bound_ = experts_.rows == 0
                     ? all
                     : std::min(all, static_cast<int64_t>(experts_.rows * number(rows) + 0.999999));
    const TensorId offsets = as(op.out[1], Placement::kWhole);
    const int64_t count = local_.tensors[offsets].shape[0];
    all_offsets_ = declare({.name = "dispatch_offsets", .dtype = DType::kI32,
                            .shape = {expert_parts_, count}});
    collective(OpKind::kAllGather, offsets, all_offsets_, false, axis::kExpert);
    local_offsets_ = declare({.name = "expert_offsets", .dtype = DType::kI32,
                              .shape = {(count - 1) / expert_parts_ + 1}});
    list_->push_back({.kind = OpKind::kExpertOffsets, .in = {all_offsets_}, .out = {local_offsets_},
                      .accumulate = {false}, .attrs = exchange_attrs()});
  }

  void count_overflow(const Op& op) {
    if (!experts_.drop) return;
    list_->push_back({.kind = OpKind::kCountOverflow, .in = {all_offsets_},
                      .out = {as(op.out[0], Placement::kOwn)}, .accumulate = {true},
                      .attrs = exchange_attrs()});
  }

  TensorId move_rows(OpKind kind, TensorId from, Tensor to, int64_t rows) {
    to.shape = {rows, local_.tensors[from].shape[1]};
    const TensorId id = declare(std::move(to));
    list_->push_back({.kind = kind, .in = {from, all_offsets_}, .out = {id}, .accumulate = {false},
                      .attrs = exchange_attrs()});
    return id;
  }

  // The rows just defined are what this rank sends; what arrives takes their name.
  void arrive(TensorId source, const char* suffix) {
    const Placement placement = placement_of(source);
    const TensorId sent = forms_[source].by_placement.at(placement);
    Tensor arrived = local_.tensors[sent];
    rename(sent, suffix);
    define(source, placement, move_rows(OpKind::kExchangeRows, sent, std::move(arrived), row_bound_));
  }

  // The experts' rows back where they came from. They take the name: backward reads them.
  TensorId returned(TensorId source) {
    if (const auto found = returned_.find(source); found != returned_.end()) return found->second;
    const TensorId here = forms_[source].by_placement.at(placement_of(source));
    Tensor back = local_.tensors[here];
    rename(here, ".here");
    return returned_[source] = move_rows(OpKind::kReturnRows, here, std::move(back),
                                         source_.tensors[source].shape[0]);
  }

  // d.rows, d.weights = combine_bwd(rows, weights, place, d.y): the gradient of rows goes to the
  // experts as the rows did.
  void combine_bwd(const Op& op) {
    emit(op, 0, returned(op.in[0]));
    arrive(op.out[0], ".sent");
  }

  const Program& source_;
  const Mesh& mesh_;
  const int tensor_parts_, expert_parts_;
  const ExpertBuffers& experts_;
  Program local_;
  std::vector<Op>* list_ = nullptr;  // forward or backward of local_
  std::vector<Forms> forms_;         // by tensor of the source
  TensorId all_offsets_ = kNoTensor, local_offsets_ = kNoTensor;
  int64_t own_rows_ = 0, row_bound_ = 0;  // that this rank sends; that it has room for
  std::map<TensorId, TensorId> returned_;
};

}  // namespace

Program shard(const Program& program, const Mesh& mesh, const ExpertBuffers& experts) {
  return Sharder(program, mesh, experts).run();
}

}  // namespace spillway
