#include "trainer/report/page.h"

#include "trainer/report/assets.h"

namespace spillway {
namespace {

// JSON in which "</script>" and "<!--" cannot occur: of a text's characters any may be written as \u.
std::string script_json(const nlohmann::json& json) {
  using Handler = nlohmann::json::error_handler_t;
  std::string result;
  for (const char c : json.dump(-1, ' ', true, Handler::replace)) {  // true: ASCII only
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string html_page(const std::string& title, const std::string& body,
                      const nlohmann::json& charts) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
  page += escape_html(title);
  page += "</title>\n<style>\n";
  page += report_css();
  page += "</style>\n</head>\n<body>\n<main>\n";
  page += body;
  page += "</main>\n<script type=\"application/json\" id=\"charts\">";
  page += script_json(charts);
  page += "</script>\n<script>\n";
  page += d3_js();
  page += "\n</script>\n<script>\n";
  page += report_js();
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace spillway
