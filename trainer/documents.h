// The documents of text files, one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/byte_stream.h"

namespace spillway {

struct DocumentOptions {
  std::string jsonl_key = "text";
  bool lines = false;  // a line of a text file is a document, in place of the file
};

// A document as its file has it: text, or a line of JSON.
struct Document {
  std::string raw;
  size_t input = 0;
  int64_t number = 0;  // in its file, from 0: of files of lines, the line
  bool json = false;
};

// The text of a document, "" of an empty line; throws DataError that names file, line and key.
// Invalid UTF-8 in a line of JSON is replaced (text/utf8.h) before it is parsed.
[[nodiscard]] std::string text_of(Document document, const std::string& path,
                                  const DocumentOptions& options);

// Reads files in order, and of each no more than a document and a block. What ends in .jsonl has
// one document a line; .gz and .zst behind any name are decompressed.
class DocumentReader {
 public:
  DocumentReader(std::vector<std::string> paths, DocumentOptions options);
  // False behind the last. Throws DataError, also on a document of more than 1 GiB.
  [[nodiscard]] bool next(Document& document);
  // The next document is this one of this input: earlier inputs are not opened.
  void skip_to(size_t input, int64_t number);
  // Bytes of the files that have been taken, compressed ones where they are.
  [[nodiscard]] int64_t consumed() const;

 private:
  bool next_line(std::string& line);
  bool whole_file(std::string& text);
  bool fill();

  std::vector<std::string> paths_;
  DocumentOptions options_;
  std::vector<int64_t> sizes_;
  size_t input_ = 0;
  int64_t number_ = 0;
  std::unique_ptr<ByteStream> stream_;
  std::string block_;
  size_t at_ = 0;
};

}  // namespace spillway
