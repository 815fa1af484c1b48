#include "text/pretokenize.h"

#include <span>

#include "text/unicode16.h"
#include "text/utf8.h"

namespace spillway {
namespace {

class Pretokenizer {
 public:
  Pretokenizer(Matcher& matcher, bool unicode16, const std::function<void(std::string_view)>& take)
      : matcher_(matcher), unicode16_(unicode16), take_(take) {}

  void divide(std::span<const Split> splits, std::string_view text) {
    if (text.empty()) return;
    if (splits.empty()) return take_(text);
    const Split& split = splits.front();
    const auto* code = split.regex.code(unicode16_);
    const auto rest = splits.subspan(1);
    const auto word = [&](size_t begin, size_t end, bool match) {
      if (!(split.drop_matches && match != split.invert))
        divide(rest, text.substr(begin, end - begin));
    };
    size_t done = 0;
    for (size_t from = 0; from < text.size();) {
      const auto match = matcher_.find(code, text, from);
      if (!match) break;
      word(done, match->begin, false);
      word(match->begin, match->end, true);
      from = done = match->end;
      // An empty match divides too; the next is looked for behind the next character.
      if (match->end == match->begin && from < text.size()) {
        from += first_code_point(text.substr(from)).bytes;
      }
    }
    word(done, text.size(), false);
  }

 private:
  Matcher& matcher_;
  bool unicode16_;
  const std::function<void(std::string_view)>& take_;
};

}  // namespace

void pretokenize(const std::vector<Split>& splits, Matcher& matcher, std::string_view text,
                 const std::function<void(std::string_view)>& take) {
  Pretokenizer(matcher, has_new_characters(text), take).divide(splits, text);
}

}  // namespace spillway
