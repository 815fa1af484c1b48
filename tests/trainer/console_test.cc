#include "trainer/console.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a Console prints for `steps` steps of 2 seconds.
std::string printed(Console::Options options) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    Console console(out, options);
    StepRecord record;
    record.seconds = 2;
    for (; record.step < options.steps; ++record.step) console.step(record);
    console.line("done");
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Console, PlainLinesElsewhere) {
  const std::string text = printed({.steps = 12, .log_every = 5});
  EXPECT_EQ(count(text, "completed step: "), 4);  // 0, 5, 10, and the last: 11
  EXPECT_EQ(count(text, "\n"), 5);
  EXPECT_THAT(text, HasSubstr("completed step: 11, "));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Console, ABarOnATerminal) {
  const std::string text = printed({.steps = 100, .log_every = 50, .bar = true});
  EXPECT_THAT(text, HasSubstr("\r  1% step 1/100  loss 0.000  0.000 TFLOP/s  ETA 3:18\x1b[K"));
  EXPECT_EQ(count(text, "\n"), 4);
  EXPECT_EQ(count(text, "\r"), 99 + 2);  // drawn 99 times, cleared for steps 50 and 99
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kcompleted step: 99, "));
}

TEST(Console, LongRunsShowHours) {
  EXPECT_THAT(printed({.steps = 10'000, .log_every = 10'000, .bar = true}),
              HasSubstr("ETA 5:33:18"));
}

}  // namespace
}  // namespace spillway
