#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include "program/error.h"
#include "text/byte_alphabet.h"
#include "text/json_node.h"

namespace spillway {
namespace {

constexpr int64_t kHighestId = (1 << 24) - 1;
// What ByteLevel's use_regex splits with (GPT-2).
constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void must_be_null(const JsonNode& node, bool or_empty = false) {
  if (!node.is_null() && !(or_empty && node.value() == "")) node.refuse("null");
}

void place(TokenizerJson& out, const JsonNode& node, int32_t id, std::string token) {
  if (out.tokens.size() <= static_cast<size_t>(id)) out.tokens.resize(id + 1);
  if (token.empty()) node.refuse("an id of a token that is not empty");
  if (!out.tokens[id].empty() && out.tokens[id] != token) {
    node.refuse(fmt::format("an id of its own: \"{}\" has it too", out.tokens[id]));
  }
  out.tokens[id] = std::move(token);
}

void read_vocabulary(const JsonNode& vocab, TokenizerJson& out) {
  if (!vocab.value().is_object()) vocab.refuse("an object");
  for (const auto& [token, unused] : vocab.value().items()) {
    const JsonNode node = vocab.at(token);
    const auto id = static_cast<int32_t>(node.integer(0, kHighestId));
    std::optional<std::string> bytes = bytes_spelled_by(token);
    if (bytes) out.vocabulary.emplace(*bytes, id);
    place(out, node, id, bytes ? *std::move(bytes) : token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (!out.vocabulary.contains(std::string(1, static_cast<char>(byte)))) {
      vocab.refuse(fmt::format("of byte-level BPE, with every byte: {:#04x} is missing", byte));
    }
  }
}

// Both forms: "left right", and ["left", "right"].
std::pair<std::string, std::string> halves(const JsonNode& node) {
  if (node.value().is_array()) {
    const std::vector<JsonNode> pair = node.items();
    if (pair.size() != 2) node.refuse("a pair");
    return {pair[0].text(), pair[1].text()};
  }
  const std::string& text = node.text();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    node.refuse("two tokens with one space between");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const JsonNode& merges, TokenizerJson& out) {
  for (const JsonNode& node : merges.items()) {
    const auto [left, right] = halves(node);
    const auto id = [&](const std::string& token) {
      const auto bytes = bytes_spelled_by(token);
      const auto found = bytes ? out.vocabulary.find(*bytes) : out.vocabulary.end();
      if (found == out.vocabulary.end()) {
        node.refuse(fmt::format("of tokens of model.vocab: \"{}\" is not there", token));
      }
      return found->second;
    };
    out.merges.push_back({id(left), id(right), id(left + right)});
  }
}

void read_model(const JsonNode& model, TokenizerJson& out) {
  if (model.at("type").value() != "BPE") model.at("type").refuse("\"BPE\"");
  if (model.at("byte_fallback").flag(false)) model.at("byte_fallback").refuse("false");
  must_be_null(model.at("dropout"));
  must_be_null(model.at("continuing_subword_prefix"), true);
  must_be_null(model.at("end_of_word_suffix"), true);
  out.ignore_merges = model.at("ignore_merges").flag(false);
  read_vocabulary(model.at("vocab"), out);
  read_merges(model.at("merges"), out);
}

void read_added(const JsonNode& tokens, TokenizerJson& out) {
  if (tokens.is_null()) return;
  for (const JsonNode& node : tokens.items()) {
    if (node.at("single_word").flag(false)) node.at("single_word").refuse("false");
    AddedToken token{.content = node.at("content").text(),
                     .id = static_cast<int32_t>(node.at("id").integer(0, kHighestId)),
                     .special = node.at("special").flag(false),
                     .lstrip = node.at("lstrip").flag(false),
                     .rstrip = node.at("rstrip").flag(false)};
    token.normalized = node.at("normalized").flag(!token.special);
    const auto bytes = bytes_spelled_by(token.content);
    const auto found = bytes ? out.vocabulary.find(*bytes) : out.vocabulary.end();
    if (found != out.vocabulary.end() && found->second != token.id) {
      node.at("id").refuse(fmt::format("{}, the id in model.vocab", found->second));
    }
    // In model.vocab, it stands in the byte-level alphabet.
    place(out, node.at("id"), token.id, found != out.vocabulary.end() ? *bytes : token.content);
    out.added.push_back(std::move(token));
  }
  for (const AddedToken& token : out.added) out.tokens[token.id] = token.content;
}

void read_normalizer(const JsonNode& node, TokenizerJson& out) {
  if (node.is_null()) return;
  const std::string& type = node.at("type").text();
  if (type == "NFC") {
    out.nfc = true;
  } else if (type == "Sequence") {
    for (const JsonNode& part : node.at("normalizers").items()) read_normalizer(part, out);
  } else {
    node.at("type").refuse("NFC or Sequence");
  }
}

void add_split(const JsonNode& node, TokenizerJson& out, Split split) {
  if (out.splits.size() == 16) node.refuse("one of at most 16");
  out.splits.push_back(std::move(split));
}

void read_split(const JsonNode& node, TokenizerJson& out) {
  const JsonNode regex = node.at("pattern").at("Regex"), literal = node.at("pattern").at("String");
  const JsonNode& pattern = regex.is_null() ? literal : regex;
  const std::string& behavior = node.at("behavior").text();
  if (behavior != "Isolated" && behavior != "Removed") {
    node.at("behavior").refuse("Isolated or Removed");
  }
  try {
    add_split(node, out,
              {.regex = Regex(pattern.text(), regex.is_null()),
               .drop_matches = behavior == "Removed",
               .invert = node.at("invert").flag(false)});
  } catch (const ConfigError& error) {
    pattern.refuse(fmt::format("a pattern that is supported ({})", error.what()));
  }
}

// True when it is, or ends with, ByteLevel.
bool read_pre_tokenizer(const JsonNode& node, TokenizerJson& out) {
  const std::string& type = node.at("type").text();
  if (type == "Sequence") {
    bool bytes = false;
    for (const JsonNode& part : node.at("pretokenizers").items()) {
      if (bytes) part.refuse("absent: nothing may follow ByteLevel");
      bytes = read_pre_tokenizer(part, out);
    }
    return bytes;
  }
  if (type == "Split") {
    read_split(node, out);
  } else if (type == "Digits") {
    const bool individual = node.at("individual_digits").flag(false);
    add_split(node, out, {.regex = Regex(individual ? R"(\p{N})" : R"(\p{N}+)", false)});
  } else if (type == "ByteLevel") {
    if (node.at("add_prefix_space").flag(true)) node.at("add_prefix_space").refuse("false");
    if (node.at("use_regex").flag(true)) add_split(node, out, {.regex = Regex(kGpt2Words, false)});
    return true;
  } else {
    node.at("type").refuse("Sequence, Split, Digits or ByteLevel");
  }
  return false;
}

void read_template(const JsonNode& node, TokenizerJson& out) {
  bool after = false;
  for (const JsonNode& piece : node.at("single").items()) {
    if (piece.at("SpecialToken").is_null()) {
      after = true;
      continue;
    }
    const std::string& name = piece.at("SpecialToken").at("id").text();
    const JsonNode ids = node.at("special_tokens").at(name).at("ids");
    int32_t& known = after ? out.eos : out.bos;
    if (ids.items().size() != 1 || known >= 0)
      piece.refuse("the only token on its side of the text");
    known = static_cast<int32_t>(
        ids.items()[0].integer(0, static_cast<int64_t>(out.tokens.size()) - 1));
  }
}

void read_post_processor(const JsonNode& node, TokenizerJson& out) {
  if (node.is_null()) return;
  const std::string& type = node.at("type").text();
  if (type == "Sequence") {
    for (const JsonNode& part : node.at("processors").items()) read_post_processor(part, out);
  } else if (type == "TemplateProcessing") {
    read_template(node, out);
  } else if (type != "ByteLevel") {  // which only moves offsets
    node.at("type").refuse("Sequence, ByteLevel or TemplateProcessing");
  }
}

}  // namespace

TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& name) {
  const nlohmann::json json = parse_json(text, name);
  const JsonNode file(json, name);
  TokenizerJson out;
  must_be_null(file.at("truncation"));
  must_be_null(file.at("padding"));
  read_normalizer(file.at("normalizer"), out);
  if (!read_pre_tokenizer(file.at("pre_tokenizer"), out)) {
    file.at("pre_tokenizer").refuse("ByteLevel, or a Sequence that ends with it");
  }
  read_model(file.at("model"), out);
  read_added(file.at("added_tokens"), out);
  read_post_processor(file.at("post_processor"), out);
  const JsonNode decoder = file.at("decoder");
  if (!decoder.is_null() && decoder.at("type").value() != "ByteLevel") {
    decoder.at("type").refuse("\"ByteLevel\"");
  }
  return out;
}

}  // namespace spillway
