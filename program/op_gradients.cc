// Backward rules of the op table.
#include "program/error.h"
#include "program/op_rules.h"

namespace spillway::rules {

void embedding_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kEmbeddingBwd, {op.in[0], g.of_output(0)}, {1});
}

void rms_norm_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRmsNormBwd, {op.in[0], op.in[1], op.out[1], g.of_output(0)}, {0, 1});
}

void add_backward(const Op&, Gradients& g) {
  g.pass_through(0);
  g.pass_through(1);
}

void rope_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRopeBwd, {g.of_output(0), op.in[1]}, {0}, op.attrs);
}

void swiglu_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kSwigluBwd, {op.in[0], op.in[1], g.of_output(0)}, {0, 1});
}

void rows_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kPutRows, {g.of_output(0)}, {0}, op.attrs);
}

void linear_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kLinearWgrad, {g.of_output(0), op.in[0]}, {1});
  g.emit(OpKind::kLinearDgrad, {g.of_output(0), op.in[1]}, {0});
}

void attention_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kAttentionBwd,
         {op.in[0], op.in[1], op.in[2], op.out[0], op.out[1], g.of_output(0)}, {0, 1, 2}, op.attrs);
}

// The loss is the root: nothing above it, so its gradient needs no gradient of an output.
void cross_entropy_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kCrossEntropyBwd, {op.in[0], op.out[1], op.in[1], op.in[2]}, {0},
         op.attrs);
}

void columns_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kPutColumns, {g.of_output(0)}, {0}, op.attrs);
}

// Its gradient knows widths only from attributes: {begin: width of a, end: width of y}.
void concat_backward(const Op& op, Gradients& g) {
  const double split = op.attrs.real(Attr::kBegin), end = op.attrs.real(Attr::kEnd);
  g.emit(OpKind::kColumns, {g.of_output(0)}, {0}, {{Attr::kBegin, 0}, {Attr::kEnd, split}});
  g.emit(OpKind::kColumns, {g.of_output(0)}, {1}, {{Attr::kBegin, split}, {Attr::kEnd, end}});
}

void mla_key_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kMlaKeyBwd, {g.of_output(0)}, {0, 1}, op.attrs);
}

void mla_value_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kMlaValueBwd, {g.of_output(0)}, {0}, op.attrs);
}

void route_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRouteBwd, {op.in[0], op.out[1], g.of_output(0)}, {0}, op.attrs);
}

void router_loss_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRouterLossBwd, {op.in[0], op.in[1], op.in[2]}, {0}, op.attrs);
}

// dispatch(x, order, offsets, place): place is there for the gradient.
void dispatch_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kDispatchBwd, {g.of_output(0), op.in[3]}, {0});
}

void grouped_linear_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kGroupedLinearWgrad, {g.of_output(0), op.in[0], op.in[2]}, {1});
  g.emit(OpKind::kGroupedLinearDgrad, {g.of_output(0), op.in[1], op.in[2]}, {0});
}

void combine_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kCombineBwd, {op.in[0], op.in[1], op.in[2], g.of_output(0)}, {0, 1});
}
}  // namespace spillway::rules
