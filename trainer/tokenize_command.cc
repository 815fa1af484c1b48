#include "trainer/tokenize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "program/error.h"
#include "text/tokenizer.h"
#include "trainer/console.h"
#include "trainer/encode_pool.h"
#include "trainer/file_hash.h"
#include "trainer/host_cores.h"
#include "trainer/input_file.h"
#include "trainer/shard_source.h"
#include "trainer/token_index.h"

namespace spillway {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr int64_t kTokenizerBytes = int64_t{1} << 30;

std::string contents_of(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kTokenizerBytes) throw DataError(fmt::format("{} is too large", path));
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::optional<int32_t> eos_of(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (options.no_eos) return std::nullopt;
  if (options.eos.empty()) return tokenizer.eos();
  const auto id = tokenizer.added_token(options.eos);
  if (!id) {
    throw ConfigError(fmt::format("--eos \"{}\" is none of the added tokens of {}", options.eos,
                                  options.tokenizer));
  }
  return id;
}

nlohmann::json identity_of(const TokenizeOptions& options, const std::string& hash,
                           const Tokenizer& tokenizer, std::optional<int32_t> eos) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const std::string& path : options.inputs) {
    inputs.push_back({{"path", path}, {"bytes", InputFile(path).size()}});
  }
  return {{"tokenizer", hash},
          {"vocab_size", tokenizer.vocab_size()},
          {"eos", eos ? nlohmann::json(*eos) : nlohmann::json()},
          {"jsonl_key", options.documents.jsonl_key},
          {"lines", options.documents.lines},
          {"shard_tokens", options.shard_tokens},
          {"inputs", inputs}};
}

// Ids in order, into one shard after another.
class ShardSequence {
 public:
  ShardSequence(TokenIndex& index, int64_t shard_tokens, int64_t vocab_size)
      : index_(index), shard_tokens_(shard_tokens), vocab_size_(vocab_size) {}

  // `ids`: those of the document from `place` on.
  void append(std::span<const int32_t> ids, TokenPlace place) {
    while (!ids.empty()) {
      if (!writer_) open();
      const auto room = static_cast<size_t>(shard_tokens_ - row_.tokens);
      const auto part = ids.first(std::min(room, ids.size()));
      writer_->append(part);
      ids = ids.subspan(part.size());
      row_.tokens += static_cast<int64_t>(part.size());
      place.token += static_cast<int64_t>(part.size());
      row_.next = place;
      if (ids.empty()) ++row_.documents;
      if (row_.tokens == shard_tokens_) close();
    }
  }
  void finish() {
    if (writer_) close();
  }

 private:
  void open() {
    row_ = {.file = fmt::format("shard_{:05}.bin", index_.shards().size())};
    writer_.emplace(index_.path_of(row_.file), vocab_size_);
  }
  void close() {
    writer_->finish();
    writer_.reset();
    index_.add(std::move(row_));
  }

  TokenIndex& index_;
  int64_t shard_tokens_, vocab_size_;
  std::optional<ShardWriter> writer_;
  ShardRow row_;
};

// One line, redrawn in place where the console is a terminal.
class ProgressLine {
 public:
  ProgressLine(std::FILE* console, int64_t file_bytes)
      : console_(console), file_bytes_(file_bytes), draws_(is_terminal(console)) {}

  void add(const EncodedBatch& batch, int64_t consumed) {
    text_bytes_ += batch.text_bytes;
    const double now = seconds();
    if (!draws_ || now < drawn_ + 0.2) return;
    drawn_ = now;
    const double done =
        static_cast<double>(consumed) / static_cast<double>(std::max<int64_t>(1, file_bytes_));
    fmt::print(console_, "\r{:3.0f}%  {:.1f} of {:.1f} MB  {:.1f} MB/s of text\x1b[K", 100 * done,
               static_cast<double>(consumed) / 1e6, static_cast<double>(file_bytes_) / 1e6, rate());
    std::fflush(console_);
  }
  void finish(const TokenIndex& index) {
    if (draws_) fmt::print(console_, "\r\x1b[K");
    fmt::print(console_,
               "tokenize: {} tokens of {} documents in {} shards; this run {:.1f} MB of text, "
               "{:.1f} MB/s\n",
               index.tokens(), index.documents(), index.shards().size(),
               static_cast<double>(text_bytes_) / 1e6, rate());
  }

 private:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] double rate() const {
    return static_cast<double>(text_bytes_) / 1e6 / std::max(seconds(), 1e-9);
  }

  std::FILE* console_;
  int64_t file_bytes_, text_bytes_ = 0;
  bool draws_;
  double drawn_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::vector<Document> next_batch(DocumentReader& reader) {
  std::vector<Document> documents;
  size_t bytes = 0;
  for (Document document; bytes < kBatchBytes && reader.next(document);) {
    bytes += document.raw.size() + sizeof(Document);
    documents.push_back(std::move(document));
  }
  return documents;
}

// Appends what of the batch lies behind `from`, where an earlier run ended.
void append(const EncodedBatch& batch, const TokenPlace& from, ShardSequence& shards) {
  size_t begin = 0;
  for (const EncodedDocument& document : batch.documents) {
    std::span<const int32_t> ids(batch.ids.data() + begin, document.end - begin);
    begin = document.end;
    TokenPlace place{.input = document.input, .document = document.number};
    if (place.input == from.input && place.document == from.document) {
      place.token = std::min<int64_t>(from.token, static_cast<int64_t>(ids.size()));
      ids = ids.subspan(static_cast<size_t>(place.token));
    }
    shards.append(ids, place);
  }
}

void fill_shards(const Tokenizer& tokenizer, EncodePool::Options pool_options, TokenIndex& index,
                 int64_t shard_tokens, ProgressLine& progress) {
  const TokenPlace from = index.next();
  DocumentReader reader(pool_options.paths, pool_options.documents);
  reader.skip_to(from.input, from.document);
  ShardSequence shards(index, shard_tokens, tokenizer.vocab_size());
  const auto in_flight = static_cast<size_t>(2 * pool_options.threads + 1);  // bounds the memory
  EncodePool pool(tokenizer, std::move(pool_options));
  std::deque<std::future<EncodedBatch>> batches;
  for (bool more = true; more || !batches.empty();) {
    while (more && batches.size() < in_flight) {
      std::vector<Document> documents = next_batch(reader);
      more = !documents.empty();
      if (more) batches.push_back(pool.encode(std::move(documents)));
    }
    if (batches.empty()) break;
    const EncodedBatch batch = batches.front().get();
    batches.pop_front();
    append(batch, from, shards);
    progress.add(batch, reader.consumed());
  }
  shards.finish();
}

}  // namespace

void tokenize(const TokenizeOptions& options, std::FILE* console) {
  const std::string json = contents_of(options.tokenizer);
  const Tokenizer tokenizer(json, options.tokenizer);
  const std::optional<int32_t> eos = eos_of(tokenizer, options);
  const nlohmann::json identity = identity_of(options, "xxh3:" + hash_of(json), tokenizer, eos);
  TokenIndex index(options.out, identity, tokenizer.vocab_size());
  int64_t file_bytes = 0;
  for (const nlohmann::json& input : identity.at("inputs"))
    file_bytes += input.at("bytes").get<int64_t>();
  ProgressLine progress(console, file_bytes);
  if (index.complete()) return progress.finish(index);
  const int threads = options.threads > 0 ? options.threads : cores_of_rank(1);
  fill_shards(
      tokenizer,
      {.threads = threads, .eos = eos, .documents = options.documents, .paths = options.inputs},
      index, options.shard_tokens, progress);
  if (index.shards().empty())
    throw DataError("the inputs hold no text: there are no tokens to write");
  index.finish();
  progress.finish(index);
}

}  // namespace spillway
