#include "text/byte_stream.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "program/error.h"

namespace spillway {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
    if (!file_) throw DataError(fmt::format("cannot read {}: {}", path_, std::strerror(errno)));
  }
  size_t read(std::span<char> out) override {
    const size_t got = std::fread(out.data(), 1, out.size(), file_.get());
    if (got < out.size() && std::ferror(file_.get()) != 0) {
      throw DataError(fmt::format("{} at byte {}: {}", path_, consumed_, std::strerror(errno)));
    }
    consumed_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t consumed() const override { return consumed_; }

 private:
  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  int64_t consumed_ = 0;
};

struct Progress {
  size_t taken, put;
};

// A stream of compressed data; `Codec` decompresses from one buffer to another.
template <class Codec>
class CompressedStream : public ByteStream {
 public:
  explicit CompressedStream(const std::string& path)
      : path_(path), file_(path), buffer_(size_t{1} << 17) {}
  size_t read(std::span<char> out) override {
    size_t written = 0;
    while (written < out.size()) {
      if (begin_ == end_) {
        begin_ = 0;
        end_ = file_.read(buffer_);
        if (end_ == 0) break;
      }
      const auto [taken, put] = codec_.step(std::span(buffer_).subspan(begin_, end_ - begin_),
                                            out.subspan(written), path_);
      begin_ += taken;
      written += put;
    }
    // What the codec still holds comes out without more input.
    if (written < out.size()) written += codec_.step({}, out.subspan(written), path_).put;
    if (written < out.size() && !codec_.whole()) {
      throw DataError(fmt::format("{} is cut off: its compressed data end at byte {} in the middle",
                                  path_, file_.consumed()));
    }
    return written;
  }
  int64_t consumed() const override { return file_.consumed(); }

 private:
  std::string path_;
  PlainStream file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  Codec codec_;
};

class Gzip {
 public:
  Gzip() {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Progress step(std::span<char> in, std::span<char> out, const std::string& path) {
    if (whole_ && in.empty()) return {0, 0};
    if (whole_) inflateReset(&stream_);  // the next member
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    const size_t room = std::min<size_t>(out.size(), size_t{1} << 30);
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      throw DataError(fmt::format("{}: damaged gzip data: {}", path,
                                  stream_.msg != nullptr ? stream_.msg : zError(status)));
    }
    whole_ = status == Z_STREAM_END;
    return {in.size() - stream_.avail_in, room - stream_.avail_out};
  }
  bool whole() const { return whole_; }

 private:
  z_stream stream_{};
  bool whole_ = false;  // an empty file is none
};

class Zstd {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
  }
  Progress step(std::span<char> in, std::span<char> out, const std::string& path) {
    if (whole_ && in.empty()) return {0, 0};
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t left = ZSTD_decompressStream(stream_.get(), &output, &input);
    if (ZSTD_isError(left) != 0) {
      throw DataError(fmt::format("{}: damaged zstd data: {}", path, ZSTD_getErrorName(left)));
    }
    whole_ = left == 0;
    return {input.pos, output.pos};
  }
  bool whole() const { return whole_; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool whole_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<CompressedStream<Gzip>>(path);
  if (path.ends_with(".zst")) return std::make_unique<CompressedStream<Zstd>>(path);
  return std::make_unique<PlainStream>(path);
}

}  // namespace spillway
