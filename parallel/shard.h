// Tensor, sequence and expert parallelism as a pass: a Program of one device becomes the Program of
// one rank, with local shapes and the collectives as ops. Model code knows nothing of it.
//
// Over the tensor axis every value has a placement. The residual stream is split by rows (tokens), so
// norms and sums are done once; products split their weights by heads, feed-forward width or
// vocabulary, so their inputs are gathered to whole rows and what the second product of a pair leaves
// is a partial sum, which is scattered back to rows (Megatron-LM's sequence parallelism, Korthikanti
// et al. 2022). Weights with no such dim (norms, latent projections, routers) see only their rank's
// rows, and their gradient is summed like that of any other divided parameter (parallel/gather).
//
// Over the expert axis, the rows that the dispatch plan sorted by expert go to the experts' ranks and
// come back; which go where every rank reads from all ranks' offsets.
#pragma once

#include "parallel/mesh.h"
#include "program/program.h"

namespace spillway {

struct ExpertBuffers {
  // Rows that a rank takes for its experts, as a multiple of what it would get if routing were
  // balanced; 0: all rows there are, so that nothing can pass the bound.
  double rows = 0;
  bool drop = false;  // what passes the bound: left out and counted, or else an error
};

// Afterwards: parameters, gradients and states have local shapes and shard_axes; the block's input and
// output, and their gradients, are split by rows over the tensor axis; every forward value that is a
// gathered or partial form of another is transient.
[[nodiscard]] Program shard(const Program& program, const Mesh& mesh, const ExpertBuffers& experts);

}  // namespace spillway
