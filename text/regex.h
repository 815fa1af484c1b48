// Regular expressions as tokenizer.json has them: Oniguruma's, matched by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace spillway {

// The pattern as PCRE2 must be given it to match what Oniguruma (Ruby's syntax, UTF-8) does: \s is
// White_Space, \p{Han} the script and not its extensions, and with
// `unicode16` \p{L} that of Unicode 16. Throws ConfigError on constructs that the two read
// differently or that no known tokenizer uses.
[[nodiscard]] std::string pcre2_pattern(std::string_view oniguruma, bool unicode16);

// Compiled; threads may share it.
class Regex {
 public:
  // `literal`: the pattern is the text itself. Throws ConfigError with the place in the pattern.
  Regex(std::string_view pattern, bool literal);
  // For text with new_characters() and without: the former costs twice the time.
  [[nodiscard]] const pcre2_real_code_8* code(bool unicode16) const {
    return unicode16 ? code16_.get() : code_.get();
  }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, Free>;
  static Code compile(const std::string& pattern, bool literal);

  Code code_, code16_;
};

// What a thread needs to match: used by one at a time.
class Matcher {
 public:
  Matcher();
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  struct Match {
    size_t begin, end;
  };
  // The first match in `text` (valid UTF-8) from byte `from` on. Throws DataError when it takes
  // more steps or stack than PCRE2 grants.
  [[nodiscard]] std::optional<Match> find(const pcre2_real_code_8* code, std::string_view text,
                                          size_t from);

 private:
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
  pcre2_real_match_data_8* data_;
};

}  // namespace spillway
