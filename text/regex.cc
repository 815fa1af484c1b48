#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <new>

#include "program/error.h"
#include "text/unicode16.h"

namespace spillway {
namespace {

constexpr size_t kJitStackBytes = size_t{16} << 20;  // address space; touched only when needed
constexpr std::string_view kGroups[] = {"?:", "?i:", "?=", "?!", "?<=", "?<!"};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class Translator {
 public:
  Translator(std::string_view in, bool unicode16) : in_(in), unicode16_(unicode16) {}

  std::string run() {
    while (at_ < in_.size()) {
      switch (in_[at_]) {
        case '\\':
          escape();
          break;
        case '[':
          open_class();
          break;
        case '(':
          group();
          break;
        case '}':
          interval_end();
          break;
        default:
          keep(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(fmt::format("{} at byte {} of the pattern is not supported", what, at_));
  }
  void keep(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }
  void emit(std::string_view text, size_t consumed) {
    out_ += text;
    at_ += consumed;
  }

  void escape() {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (c == 's') return emit("\\p{White_Space}", 2);
    if (c == 'S') return emit("\\P{White_Space}", 2);
    if (c == 'p' || c == 'P') return property();
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' ||
        (alphanumeric && std::string_view("dDrnt").find(c) == std::string_view::npos)) {
      refuse(fmt::format("\\{}", c));
    }
    keep(2);
  }
  void property() {
    const size_t close = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || close == std::string_view::npos)
      refuse("\\p without {NAME}");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    bool negated = in_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const size_t consumed = close + 1 - at_;
    if (name.size() > 2)
      return emit(fmt::format("\\{}{{sc:{}}}", negated ? 'P' : 'p', name), consumed);
    const std::string added = additions(name);
    if (in_class_) {
      if (negated && !added.empty()) refuse(fmt::format("\\P{{{}}} in a class", name));
      return emit(fmt::format("\\{}{{{}}}{}", negated ? 'P' : 'p', name, added), consumed);
    }
    emit(fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", name, added), consumed);
  }
  // Ranges of a general category (one letter: all of its kind) that PCRE2 does not know yet.
  [[nodiscard]] std::string additions(std::string_view category) const {
    std::string ranges;
    if (!unicode16_) return ranges;
    for (const NewCharacters& added : new_characters()) {
      if (!added.category.starts_with(category)) continue;
      ranges += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(added.first),
                            static_cast<uint32_t>(added.last));
    }
    return ranges;
  }
  void open_class() {
    keep(in_.substr(at_, 2) == "[^" ? 2 : 1);
    in_class_ = true;
    for (bool first = true;; first = false) {
      if (at_ >= in_.size()) refuse("a class without its end");
      if (in_[at_] == ']' && !first) break;
      if (in_[at_] == '[' || in_.substr(at_, 2) == "&&" || in_[at_] == ']') {
        refuse("a class inside a class");
      }
      in_[at_] == '\\' ? escape() : keep(1);
    }
    in_class_ = false;
    keep(1);
  }
  void group() {
    if (in_.substr(at_ + 1, 1) == "*") refuse("(*");
    if (in_.substr(at_ + 1, 1) == "?") {
      bool known = false;
      for (const std::string_view group : kGroups) known |= in_.substr(at_ + 1).starts_with(group);
      if (!known) refuse(std::string(in_.substr(at_, 4)));
    }
    keep(1);
  }
  // a{1,3}+ repeats in Ruby's syntax, and does not give back in PCRE2's.
  void interval_end() {
    if (in_.substr(at_ + 1, 1) == "+") refuse("}+");
    keep(1);
  }

  std::string_view in_;
  size_t at_ = 0;
  bool unicode16_, in_class_ = false;
  std::string out_;
};

}  // namespace

std::string pcre2_pattern(std::string_view oniguruma, bool unicode16) {
  return Translator(oniguruma, unicode16).run();
}

void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Regex::Regex(std::string_view pattern, bool literal)
    : code_(compile(literal ? std::string(pattern) : pcre2_pattern(pattern, false), literal)),
      code16_(compile(literal ? std::string(pattern) : pcre2_pattern(pattern, true), literal)) {}

Regex::Code Regex::compile(const std::string& pattern, bool literal) {
  // Ruby's ^ and $ stand at every line. The matcher's own check of UTF-8 would read all text again.
  const uint32_t options =
      PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                          &error, &offset, nullptr));
  if (!code) {
    throw ConfigError(fmt::format("{} at \"{}\"", message_of(error), pattern.substr(offset)));
  }
  (void)pcre2_jit_compile(code.get(),
                          PCRE2_JIT_COMPLETE);  // where there is no JIT it is interpreted
  return code;
}

Matcher::Matcher()
    : context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr)),
      data_(pcre2_match_data_create(1, nullptr)) {
  if (context_ == nullptr || data_ == nullptr) throw std::bad_alloc();
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}

Matcher::~Matcher() {
  pcre2_match_data_free(data_);
  pcre2_jit_stack_free(stack_);
  pcre2_match_context_free(context_);
}

std::optional<Matcher::Match> Matcher::find(const pcre2_real_code_8* code, std::string_view text,
                                            size_t from) {
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, data_, context_);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw DataError(
        fmt::format("splitting a text into words at byte {}: {}", from, message_of(found)));
  }
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data_);
  return Match{place[0], place[1]};
}

}  // namespace spillway
