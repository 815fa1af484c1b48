// The pre-tokenizer: text into words.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace spillway {

// One Split of tokenizer.json. Words are the matches, and what lies between them; `invert`
// exchanges the two, `drop_matches` leaves the (then) matches out.
struct Split {
  Regex regex;
  bool drop_matches = false, invert = false;
};

// Gives `take` the words of `text` (valid UTF-8), as views of it, in order. Each split divides the
// words of the one before it, alone: its assertions see nothing beyond the word.
void pretokenize(const std::vector<Split>& splits, Matcher& matcher, std::string_view text,
                 const std::function<void(std::string_view)>& take);

}  // namespace spillway
