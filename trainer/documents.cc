#include "trainer/documents.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "program/error.h"
#include "text/utf8.h"
#include "trainer/input_file.h"

namespace spillway {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr size_t kDocumentBytes = size_t{1} << 30;

bool holds_json(std::string_view path) {
  for (const std::string_view compressed : {".gz", ".zst"}) {
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  }
  return path.ends_with(".jsonl");
}

void check_size(const std::string& text, const std::string& path, int64_t number) {
  if (text.size() <= kDocumentBytes) return;
  throw DataError(
      fmt::format("{}: document {} has more than {} bytes; --lines makes every line one", path,
                  number + 1, kDocumentBytes));
}

}  // namespace

std::string text_of(Document document, const std::string& path, const DocumentOptions& options) {
  if (!document.json) return std::move(document.raw);
  if (document.raw.find_first_not_of(" \t") == std::string::npos) return "";  // an empty line
  replace_invalid_utf8(document.raw);
  const auto fail = [&](const std::string& what) {
    throw DataError(fmt::format("{} line {}: {}", path, document.number + 1, what));
  };
  nlohmann::json line;
  try {
    line = nlohmann::json::parse(document.raw);
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
  if (!line.is_object()) fail(fmt::format("an object is expected, not {}", line.type_name()));
  const auto found = line.find(options.jsonl_key);
  if (found == line.end()) {
    std::string keys;
    for (const auto& [key, unused] : line.items()) keys += (keys.empty() ? "" : ", ") + key;
    fail(fmt::format("no key \"{}\" (--jsonl-key); there are: {}", options.jsonl_key, keys));
  }
  if (!found->is_string()) {
    fail(fmt::format("\"{}\" must be a string, not {}", options.jsonl_key, found->type_name()));
  }
  return std::move(found->get_ref<std::string&>());
}

DocumentReader::DocumentReader(std::vector<std::string> paths, DocumentOptions options)
    : paths_(std::move(paths)), options_(std::move(options)) {
  for (const std::string& path : paths_) sizes_.push_back(InputFile(path).size());
}

bool DocumentReader::next(Document& document) {
  for (; input_ < paths_.size(); ++input_, number_ = 0, stream_.reset()) {
    if (!stream_) {
      stream_ = open_byte_stream(paths_[input_]);
      block_.clear();
      at_ = 0;
    }
    const bool json = holds_json(paths_[input_]);
    const bool found = json || options_.lines ? next_line(document.raw) : whole_file(document.raw);
    if (!found) continue;
    document.input = input_;
    document.number = number_++;
    document.json = json;
    return true;
  }
  return false;
}

// Without its end, which is \n or \r\n.
bool DocumentReader::next_line(std::string& line) {
  line.clear();
  bool any = false;
  while (at_ < block_.size() || fill()) {
    any = true;
    const size_t end = block_.find('\n', at_);
    line.append(block_, at_, end - at_);
    check_size(line, paths_[input_], number_);
    at_ = end == std::string::npos ? block_.size() : end + 1;
    if (end != std::string::npos) break;
  }
  if (line.ends_with('\r')) line.pop_back();
  return any;
}

bool DocumentReader::whole_file(std::string& text) {
  text.clear();
  if (number_ > 0) return false;
  while (fill()) {
    text += block_;
    check_size(text, paths_[input_], number_);
  }
  return true;
}

bool DocumentReader::fill() {
  block_.resize(kBlockBytes);
  block_.resize(stream_->read(block_));
  at_ = 0;
  return !block_.empty();
}

void DocumentReader::skip_to(size_t input, int64_t number) {
  input_ = input;
  number_ = 0;
  stream_.reset();
  Document skipped;
  while (number_ < number && next(skipped)) {
  }
}

int64_t DocumentReader::consumed() const {
  const auto done = sizes_.begin() + static_cast<std::ptrdiff_t>(input_);
  return std::accumulate(sizes_.begin(), done, int64_t{0}) + (stream_ ? stream_->consumed() : 0);
}

}  // namespace spillway
