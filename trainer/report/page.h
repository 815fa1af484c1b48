// The frame of every HTML report: style, D3 and the drawings of report.js stand in the page itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace spillway {

// `text` as HTML shows it, in an element or in a quoted attribute.
[[nodiscard]] std::string escape_html(const std::string& text);

// `body` is HTML. `charts`: what report.js draws, see its head. A page loads nothing from anywhere.
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body,
                                    const nlohmann::json& charts);

}  // namespace spillway
