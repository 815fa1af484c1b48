// A run on a terminal or in a log: MaxText's step lines, and on a terminal a progress bar below them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "trainer/step_record.h"

namespace spillway {

[[nodiscard]] bool is_terminal(std::FILE* file);

class Console {
 public:
  struct Options {
    int64_t steps = 0;      // of the whole run
    int64_t log_every = 1;  // a line for step 0, then for every such step, and for the last
    bool bar = false;       // redraw one line in place: only on a terminal
  };
  // `out` stays the caller's.
  Console(std::FILE* out, Options options) : out_(out), options_(options) {}
  ~Console() { clear_bar(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void step(const StepRecord& record);
  void line(const std::string& text);  // above the bar

 private:
  void draw_bar(const StepRecord& record);
  void clear_bar();

  std::FILE* out_;
  Options options_;
  bool drawn_ = false;
  int64_t steps_seen_ = 0;
  double seconds_seen_ = 0;
};

}  // namespace spillway
