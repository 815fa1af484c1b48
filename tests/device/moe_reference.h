// The reference of multi-head latent attention's and mixture of experts' ops; see reference.h.
#pragma once

#include "tests/device/reference.h"

namespace spillway {

// Indices are numbers too. put_columns, mla_key_bwd, mla_value_bwd and router_bias_update take what
// is in their outputs before as further inputs, one an output; mla_key_bwd adds to the second.
[[nodiscard]] Arrays moe_reference(OpKind kind, const Arrays& in, const Attrs& attrs);

// Those of the router: moe_reference calls it.
[[nodiscard]] Arrays router_reference(OpKind kind, const Arrays& in, const Attrs& attrs);

}  // namespace spillway
