// Synchronisation is derived, never written.
#pragma once

#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

// Fills Instr::waits so that any two instructions which touch the same bytes, at least one of them
// writing, run in issue order. Waits implied by others (through any chain of streams) are dropped.
// After this pass: verify_sync(schedule, plan) holds.
void insert_sync(Schedule& schedule, const MemoryPlan& plan);

}  // namespace spillway
