#include "trainer/console.h"

#include <fmt/format.h>
#include <unistd.h>

namespace spillway {
namespace {

std::string duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  const int64_t hours = total / 3600, minutes = total / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60)
                   : fmt::format("{}:{:02}", minutes, total % 60);
}

}  // namespace

bool is_terminal(std::FILE* file) { return isatty(fileno(file)) != 0; }

void Console::step(const StepRecord& record) {
  ++steps_seen_;
  seconds_seen_ += record.seconds;
  const bool last = record.step + 1 >= options_.steps;
  if (record.step % options_.log_every == 0 || last) line(step_line(record));
  if (options_.bar && !last) draw_bar(record);
}

void Console::line(const std::string& text) {
  clear_bar();
  fmt::print(out_, "{}\n", text);
  std::fflush(out_);
}

void Console::draw_bar(const StepRecord& record) {
  const int64_t done = record.step + 1;
  const double left =
      static_cast<double>(options_.steps - done) * seconds_seen_ / static_cast<double>(steps_seen_);
  // \r and "erase to the end of the line" redraw in place.
  fmt::print(
      out_, "\r{:3}% step {}/{}  loss {:.3f}  {:.3f} TFLOP/s  ETA {}\x1b[K",
      static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(options_.steps)),
      done, options_.steps, record.loss, record.tflops_per_device(), duration(left));
  std::fflush(out_);
  drawn_ = true;
}

void Console::clear_bar() {
  if (!drawn_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace spillway
