// Where instructions that run beside compute are issued and done, on an estimated timeline.
//
// Compute stays as it is: `fixed` instructions, numbered in issue order; positions are these
// numbers. What moves bytes is issued before or after one of them, on a first-in first-out stream.
// `limit` bounds how many of a list are between issue and completion.
#pragma once

#include <limits>
#include <vector>

#include "program/schedule.h"

namespace spillway {

// Has to be done when its result is first used.
struct Early {
  std::vector<Instr> instrs;  // issued together
  int use = 0;                // the fixed instruction in front of which it must be done
  int window_begin = 0;       // it is not issued in front of an earlier one than this
  int earliest = 0;           // the same, and for correctness: what it reads is written before here
  double seconds = 0;
  int issue = 0;  // result: in front of this one
};

// Has to be done when the bytes of its source are wanted for something else.
struct Late {
  std::vector<Instr> instrs;  // issued together; the first alone reads the source
  std::vector<Instr> frees;   // of the source, if it is to be freed
  int definition = 0;         // the fixed instruction that completes the source
  int last_use = 0;           // of the source by fixed instructions
  int window_end = 0;         // the source is freed no later than behind this one, done or not
  int deadline = std::numeric_limits<int>::max();  // the first fixed use of the result
  double seconds = 0;        // of the first
  double more_seconds = 0;   // of the others
  int issue = 0, done = 0;   // result: behind these
};

// Estimated starts of the fixed instructions, and the end of the last. Never decreases.
using Timeline = std::vector<double>;

// Forward in time: each is issued at its definition unless too many are in flight, and is done when
// the stream, on which `others` have been placed, has had the time for it. In order of definition;
// deadlines go before the limit.
void place_late(std::vector<Late>& lates, const std::vector<Early>& others, const Timeline& start,
                int limit);

// The mirror image, backward in time: uses are fixed, each is issued just in time for its use.
// Where too many would be in flight, the one used last starts later. One that would queue behind one of
// `others` goes in front of it. In order of use.
void place_early(std::vector<Early>& earlies, const std::vector<Late>& others,
                 const Timeline& start, int limit);

}  // namespace spillway
