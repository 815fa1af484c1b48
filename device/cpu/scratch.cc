#include "device/cpu/scratch.h"

#include "device/cpu/kernel.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {

Workspace::Workspace(const BoundOp& op, int64_t shared, int64_t per_thread)
    : scratch_(op.scratch), shared_(round_up(shared, 16)), per_thread_(round_up(per_thread, 16)) {
  op.scratch->require((shared_ + op.threads * per_thread_) * int64_t{sizeof(float)});
}

}  // namespace spillway::cpu
