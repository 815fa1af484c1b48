// The verifiers. Each throws VerifyError naming the op or instruction that breaks a rule.
#pragma once

#include "program/plan.h"
#include "program/program.h"
#include "program/schedule.h"

namespace spillway {

// Every value is defined once before it is read; accumulation only into something defined (or into a
// kGrad / kStepIo tensor); shapes and dtypes agree with the op table; names are unique.
void verify(const Program& program);

// Every buffer is written before it is read, freed exactly once if not persistent, and not touched
// afterwards; slots only advance; waits point backwards to other streams.
void verify(const Schedule& schedule);

// No two buffers with overlapping lifetimes share bytes; all lie inside their arena, aligned.
void verify(const Schedule& schedule, const MemoryPlan& plan);

// Proves by happens-before that every pair of conflicting byte accesses on different streams is
// ordered. Independent of insert_sync: it looks at pairs, not at last accesses.
void verify_sync(const Schedule& schedule, const MemoryPlan& plan);

}  // namespace spillway
