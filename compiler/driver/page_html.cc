// The page as text: tables, one drawing per entry for the memory plan, and the model's own lines with the kernels that
// compute them beside. Plain HTML with its style inside: it is read from a disk, a mail or a bug report alike.
#include "compiler/driver/measure.h"
#include "compiler/driver/page_facts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace heddle {

namespace {

constexpr const char *style = R"(
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5c6677; --line: #d9dee7; --paper: #ffffff; --tint: #f5f7fa;
        --link: #2456c7; --used: #edf3ff; --number: #5c6677; --bar: #7aa2f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7ef; --soft: #a5aebd; --line: #3a4252; --paper: #161a22;
        --tint: #1e2430; --link: #8db4ff; --used: #202c45; --number: #8d97a8; --bar: #4a6bb5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 32px 80px; background: var(--paper); color: var(--ink);
       font: 14px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 8px; padding-bottom: 4px;
     border-bottom: 2px solid var(--line); } h3 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 6px 0; max-width: 900px; } .soft { color: var(--soft); } nav a { margin-right: 16px; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
code, pre, .mono { font: 12.5px/1.45 "DejaVu Sans Mono", ui-monospace, Menlo, Consolas, monospace; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; } th { text-align: left; font-weight: 600; color: var(--soft);
        font-size: 12px; } th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.how { min-width: 150px; } td.n, th.n { text-align: right; white-space: nowrap; } tr.loop td { background: var(--tint); font-style: italic; }
.chip { display: inline-block; padding: 0 7px; border-radius: 9px; color: #fff; font-size: 11.5px; white-space: nowrap; }
.place { display: inline-block; padding: 0 6px; border: 1px solid var(--line); border-radius: 4px; font-size: 11.5px;
         white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0; } .facts div { background: var(--tint); border: 1px solid
         var(--line); border-radius: 6px; padding: 8px 14px; } .facts b { display: block; font-size: 17px; }
.wide { overflow-x: auto; } svg text { font: 10.5px "DejaVu Sans", sans-serif; fill: var(--soft); }
svg text.on { fill: #fff; } svg .slot { fill: var(--tint); } svg .grid { stroke: var(--line); } svg .roof { stroke: var(--ink);
      stroke-width: 2; fill: none; }
@media (max-width: 700px) { body { padding: 16px 12px 40px; } }
pre.code { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; margin: 6px 0;
           overflow-x: auto; } details summary { cursor: pointer; color: var(--soft); }
table.text { border-collapse: collapse; } table.text td { border: 0; padding: 0 12px 0 0; white-space: pre; }
table.text td.line { color: var(--number); text-align: right; user-select: none; } table.text tr.used { background: var(--used); }
table.text .chip { font-size: 10px; line-height: 14px; }
.bar { display: inline-block; height: 8px; background: var(--bar); border-radius: 2px; vertical-align: middle; margin-right: 6px; }
)";

} // namespace

const char *page_colour(const std::string &kind) {
  static const std::map<std::string, const char *> known = {
      {"attention", "#7c3aed"}, {"contraction", "#2563eb"}, {"row_reduction", "#0c7a54"}, {"pointwise", "#64748b"},
      {"lookup", "#a3570a"},    {"convolution", "#0e7f93"}, {"scatter", "#be2d6b"},       {"general", "#b3413a"}};
  auto found = known.find(kind);
  return found == known.end() ? "#475569" : found->second;
}

std::string page_begin(const std::string &title) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  return out;
}

namespace {

std::string scaled(double value, std::initializer_list<const char *> units, double step) {
  auto unit = units.begin();
  while (std::abs(value) >= step && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, value >= 100 || value == std::floor(value) ? "%.0f %s" : "%.3g %s", value, *unit);
  return text;
}
} // namespace

std::string bytes_text(double bytes) { return bytes < 0 ? "?" : scaled(bytes, {"B", "kB", "MB", "GB"}, 1000); }
std::string flops_text(double flops) {
  return flops < 0 ? "?" : scaled(flops, {"flop", "kflop", "Mflop", "Gflop", "Tflop"}, 1000);
}

namespace {

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && line.back() == '\r')
      line.pop_back();
    out.push_back(line);
  }
  return out;
}

size_t indent(const std::string &line) { return std::min(line.find_first_not_of(' '), line.size()); }

class Page {
public:
  explicit Page(const PageFacts &facts) : facts_(facts) {
    for (const auto &[path, text] : facts.texts)
      lines_[path] = lines_of(text);
  }

  std::string text() {
    head();
    for (size_t i = 0; i < facts_.entries.size(); ++i)
      entry(facts_.entries[i], i);
    roofline();
    kernels();
    weights();
    sources();
    out_ << "</body>\n</html>\n";
    return out_.str();
  }

private:
  void head() {
    out_ << page_begin(facts_.model + ": from model text to kernels");
    out_ << "<h1>" << escaped(facts_.model) << "</h1>\n<p class=\"soft\">" << escaped(facts_.path) << ", compiled for "
         << escaped(facts_.target) << "</p>\n";
    int64_t weight_bytes = 0;
    for (const PageWeight &weight : facts_.weights)
      weight_bytes += weight.bytes;
    out_ << "<div class=\"facts\">";
    auto fact = [&](const std::string &value, const std::string &what) {
      out_ << "<div><b>" << escaped(value) << "</b>" << escaped(what) << "</div>";
    };
    fact(std::to_string(facts_.entries.size()), facts_.entries.size() == 1 ? "entry" : "entries");
    fact(std::to_string(facts_.kernels.size()), "kernel functions");
    fact(bytes_text(weight_bytes), std::to_string(facts_.weights.size()) + " weights");
    for (const auto &[name, value] : facts_.dims)
      fact(name + " = " + std::to_string(value), "the numbers below are for this size");
    for (const PageEntry &entry : facts_.entries)
      if (entry.ms >= 0)
        fact(time_text(entry.ms), "a call of " + entry.name + ", " + std::to_string(facts_.roof->threads) +
                                      (facts_.roof->threads == 1 ? " thread" : " threads"));
    out_ << "</div>\n<nav>";
    for (size_t i = 0; i < facts_.entries.size(); ++i)
      out_ << "<a href=\"#entry" << i << "\">" << escaped(facts_.entries[i].name) << "</a>";
    if (facts_.roof)
      out_ << "<a href=\"#roofline\">roofline</a>";
    out_ << "<a href=\"#kernels\">kernels</a><a href=\"#weights\">weights</a><a href=\"#text\">model text</a></nav>\n";
  }

  std::string chip(int kernel) const {
    const PageKernel &k = facts_.kernels[kernel];
    return std::string("<a class=\"chip\" style=\"background:") + page_colour(k.kind) + "\" href=\"#" + k.name +
           "\" title=\"" + k.kind + "\">" + k.name + "</a>";
  }

  static std::string places(const std::vector<PageTensor> &tensors) {
    std::string out;
    for (const PageTensor &tensor : tensors)
      out += (out.empty() ? "" : "<br>") + ("<span class=\"place\">" + escaped(tensor.what) + "</span> <code>") +
             escaped(tensor.shape) + "</code>";
    return out;
  }

  static double sum(const std::vector<PageTensor> &tensors) {
    double total = 0;
    for (const PageTensor &tensor : tensors)
      total = total < 0 || tensor.bytes < 0 ? -1 : total + tensor.bytes;
    return total;
  }

  void entry(const PageEntry &entry, size_t number) {
    double flops = 0;
    int calls = 0;
    double most = 0;
    bool known = true;
    for (const PageStep &step : entry.steps)
      if (step.kernel >= 0) {
        ++calls;
        known &= step.flops >= 0 && step.iterations >= 0;
        flops += std::max(step.flops, 0.0) * std::max<int64_t>(step.iterations, 1);
        most = std::max(most, step.flops);
      }
    int64_t arena = 0;
    for (int64_t slot : entry.slot_bytes)
      arena += std::max<int64_t>(slot, 0);
    out_ << "<h2 id=\"entry" << number << "\">entry " << escaped(entry.name) << "</h2>\n<p>" << calls
         << (calls == 1 ? " kernel call, " : " kernel calls, ") << (known ? "" : "at least ") << flops_text(flops)
         << ", " << bytes_text(arena)
         << " between kernels.</p>\n<table><tr><th>inputs</th><th>results</th></tr><tr><td>" << places(entry.inputs)
         << "</td><td>" << places(entry.results) << "</td></tr></table>\n";
    if (!entry.not_measured.empty())
      out_ << "<p>Not measured: " << escaped(entry.not_measured) << ".</p>\n";
    bool timed = entry.ms >= 0; // before what is wide, so that no window hides it
    out_ << "<div class=\"wide\"><table>\n<tr><th class=\"n\">#</th><th>kernel</th>"
         << (timed ? "<th class=\"n\">time</th>" : "")
         << "<th>computes</th><th>reads</th><th>writes</th><th>schedule</th><th class=\"n\">work</th>"
            "<th class=\"n\">bytes</th></tr>\n";
    int at = 0;
    for (const PageStep &step : entry.steps) {
      std::string pad = step.depth ? " style=\"padding-left:" + std::to_string(step.depth * 16) + "px\"" : "";
      if (step.kernel < 0) {
        out_ << "<tr class=\"loop\"><td></td><td colspan=\"8\"" << pad << ">" << escaped(step.loop) << "</td></tr>\n";
        continue;
      }
      const PageKernel &kernel = facts_.kernels[step.kernel];
      out_ << "<tr><td class=\"n soft\">" << ++at << "</td><td" << pad << ">" << chip(step.kernel)
           << "<br><span class=\"soft\">" << escaped(kernel.kind) << "</span></td>"
           << (timed ? "<td class=\"n\">" + (step.ms >= 0 ? time_text(step.ms) : "") + "</td>" : "") << "<td>"
           << computes(step) << "</td><td>" << places(step.inputs) << "</td><td>" << places(step.results)
           << "</td><td class=\"how\">";
      if (step.row >= 0 && step.row < int(kernel.rows.size()))
        out_ << escaped(kernel.rows[step.row].variant) << "<br><span class=\"soft\">"
             << escaped(kernel.rows[step.row].params) << "</span>";
      else
        out_ << "<span class=\"soft\">chosen at the call</span>";
      for (const PageLaunch &launch : step.launches)
        out_ << "<br><span class=\"soft\">" << escaped(launch_text(launch)) << "</span>";
      double bytes = sum(step.inputs) < 0 || sum(step.results) < 0 ? -1 : sum(step.inputs) + sum(step.results);
      int width = most > 0 && step.flops > 0 ? std::max(1, int(40 * step.flops / most)) : 0;
      out_ << "</td><td class=\"n\">"
           << (width ? "<span class=\"bar\" style=\"width:" + std::to_string(width) + "px\"></span>" : "")
           << (step.once ? "once in a session" : flops_text(step.flops))
           << (step.iterations > 1 ? " × " + std::to_string(step.iterations) : "") << "</td><td class=\"n\">"
           << bytes_text(bytes)
           << (share_text(step).empty() ? "" : "<br><span class=\"soft\">" + share_text(step) + "</span>")
           << "</td></tr>\n";
    }
    out_ << "</table></div>\n";
    for (const GeneralWork &work : general_work(facts_))
      if (work.entry == int(number))
        out_ << "<p>" << chip(work.kernel) << " " << escaped(general_text(facts_, work)) << ".</p>\n";
    memory(entry);
  }

  std::string computes(const PageStep &step) const {
    std::string out;
    if (!step.definitions.empty()) {
      std::string all;
      for (const std::string &name : step.definitions)
        all += (all.empty() ? "" : ", ") + name;
      out += "<b title=\"" + escaped(all) + "\">" + escaped(step.definitions.back()) + "</b>";
      if (step.definitions.size() > 1)
        out += " <span class=\"soft\" title=\"" + escaped(all) + "\">+ " + std::to_string(step.definitions.size() - 1) +
               "</span>";
    }
    if (std::string line = trimmed(definition(step.source), 64); !line.empty())
      out += "<br><code class=\"soft\">" + escaped(line) + "</code>";
    return out;
  }

  static std::string trimmed(std::string text, size_t most) {
    text = text.substr(0, text.find('\n'));
    text = text.substr(indent(text));
    if (text.size() > most) {
      size_t end = most;
      while (end > 0 && (text[end] & 0xC0) == 0x80) // never half a character
        --end;
      text = text.substr(0, end) + " …";
    }
    return text;
  }

  /// The line of a definition and what continues it, deeper indented.
  std::string definition(const PageSource &source) const {
    auto found = lines_.find(source.path);
    if (found == lines_.end() || source.line < 1 || source.line > int(found->second.size()))
      return "";
    const std::vector<std::string> &lines = found->second;
    const std::string &first = lines[source.line - 1];
    std::string out = first;
    if (first.empty() || first.back() == '{')
      return out;
    for (size_t next = source.line; next < lines.size() && next < size_t(source.line) + 8; ++next) {
      if (indent(lines[next]) <= indent(first) || lines[next].empty())
        break;
      out += "\n" + lines[next];
    }
    return out;
  }

  void memory(const PageEntry &entry) {
    if (entry.lives.empty())
      return;
    std::vector<int> column(entry.steps.size() + 1); // calls are numbered, loop heads are not
    int calls = 0;
    for (size_t i = 0; i < entry.steps.size(); ++i)
      column[i] = entry.steps[i].kernel >= 0 ? calls++ : calls;
    column[entry.steps.size()] = calls;
    int64_t total = 0;
    for (int64_t bytes : entry.slot_bytes)
      total += std::max<int64_t>(bytes, 1);
    double step = std::clamp(1040.0 / std::max(calls, 1), 5.0, 80.0);
    std::vector<double> top, height;
    double y = 4;
    for (int64_t bytes : entry.slot_bytes) {
      top.push_back(y);
      height.push_back(std::max(16.0, 260.0 * std::max<int64_t>(bytes, 1) / total));
      y += height.back() + 4;
    }
    out_ << "<h3>memory plan</h3>\n<p class=\"soft\">Each band is a slot of the arena, as high as its bytes; time goes "
            "to the "
            "right, one column per kernel call. Values that are never alive together share a slot.</p>\n"
         << "<div class=\"wide\"><svg width=\"" << 100 + step * calls + 10 << "\" height=\"" << y + 18
         << "\" role=\"img\" aria-label=\"memory plan\">\n";
    for (size_t slot = 0; slot < entry.slot_bytes.size(); ++slot)
      out_ << "<rect x=\"100\" y=\"" << top[slot] << "\" width=\"" << step * calls << "\" height=\"" << height[slot]
           << "\" class=\"slot\"/><text x=\"94\" y=\"" << top[slot] + height[slot] / 2 + 4
           << "\" text-anchor=\"end\">slot " << slot << ", " << bytes_text(entry.slot_bytes[slot]) << "</text>\n";
    for (const PageLife &life : entry.lives) {
      double x = 100 + step * column[life.first];
      double width = step * (column[std::min<size_t>(life.last, entry.steps.size())] - column[life.first] + 1) - 1;
      double share =
          entry.slot_bytes[life.slot] > 0 ? double(std::max<int64_t>(life.bytes, 0)) / entry.slot_bytes[life.slot] : 1;
      double h = std::max(5.0, height[life.slot] * share);
      width = std::max(2.0, std::min(width, 100 + step * calls - x));
      out_ << "<g><title>" << escaped(life.name) << ", " << bytes_text(life.bytes) << "</title><rect x=\"" << x
           << "\" y=\"" << top[life.slot] + height[life.slot] - h << "\" width=\"" << width << "\" height=\"" << h
           << "\" rx=\"2\" fill=\"" << page_colour(life.kind) << "\"/>";
      std::string label = life.name.substr(life.name.rfind('.') == std::string::npos ? 0 : life.name.rfind('.') + 1);
      if (width > 7.0 * label.size() + 4 && h >= 12)
        out_ << "<text x=\"" << x + 4 << "\" y=\"" << top[life.slot] + height[life.slot] - h / 2 + 4
             << "\" class=\"on\">" << escaped(label) << "</text>";
      out_ << "</g>\n";
    }
    int every = calls > 40 ? 10 : calls > 15 ? 5 : 1;
    for (int call = 0; call < calls; ++call)
      if ((call + 1) % every == 0 || call == 0)
        out_ << "<text x=\"" << 100 + step * (call + 0.5) << "\" y=\"" << y + 12 << "\" text-anchor=\"middle\">"
             << call + 1 << "</text>\n";
    out_ << "</svg></div>\n";
  }

  /// What is measured of a kernel, or of a line, over all entries; "" where nothing is.
  template <class Belongs> std::string measured(Belongs belongs) const {
    double ms = -1;
    for (const PageEntry &entry : facts_.entries)
      for (const PageStep &step : entry.steps)
        if (step.ms >= 0 && belongs(step))
          ms = std::max(ms, 0.0) + step.ms;
    return ms < 0 ? "" : time_text(ms);
  }

  void roofline() {
    if (!facts_.roof)
      return;
    out_ << "<h2 id=\"roofline\">measured kernels under the machine's roofs</h2>\n<p>"
         << scaled(facts_.roof->gflops * 1e9, {"flop", "kflop", "Mflop", "Gflop", "Tflop"}, 1000) << "/s of f32, "
         << scaled(facts_.roof->gigabytes * 1e9, {"B", "kB", "MB", "GB"}, 1000)
         << "/s from memory. A kernel above the slope finds what it reads in a cache; one above the flat part "
            "multiplies "
            "narrower numbers than f32, or ran when the machine was less busy than while it was measured.</p>\n"
         << roofline_svg(facts_);
  }

  void kernels() {
    out_ << "<h2 id=\"kernels\">kernels</h2>\n<p>Every kernel is compiled once, however often it is called. Its "
            "schedule is a "
            "list of rows; the first whose condition on the sizes holds is called.</p>\n";
    for (size_t i = 0; i < facts_.kernels.size(); ++i) {
      const PageKernel &kernel = facts_.kernels[i];
      out_ << "<h3 id=\"" << kernel.name << "\">" << chip(i) << " " << escaped(kernel.kind)
           << " <span class=\"soft\">called in " << kernel.calls << (kernel.calls == 1 ? " place" : " places");
      if (std::string time = measured([&](const PageStep &step) { return step.kernel == int(i); }); !time.empty())
        out_ << ", " << time;
      out_ << "</span></h3>\n";
      std::string path, code;
      for (const PageSource &source : kernel.sources) {
        std::string text = definition(source);
        if (text.empty())
          continue;
        if (source.path != path)
          code += (code.empty() ? "" : "\n") + ("# " + source.path) + "\n";
        path = source.path;
        char number[16];
        std::snprintf(number, sizeof number, "%5d  ", source.line);
        std::istringstream lines(text);
        bool first = true;
        for (std::string line; std::getline(lines, line); first = false)
          code += (first ? std::string(number) : std::string(7, ' ')) + line + "\n";
      }
      if (!code.empty())
        out_ << "<pre class=\"code\">" << escaped(code) << "</pre>\n";
      out_ << "<table><tr><th>schedule</th><th>parameters</th><th>when</th><th>what it does</th></tr>\n";
      for (const PageKernel::Row &row : kernel.rows)
        out_ << "<tr><td>" << escaped(row.variant) << "</td><td><code>" << escaped(row.params)
             << "</code></td><td><code>" << escaped(row.when.empty() ? "always" : row.when) << "</code></td><td>"
             << escaped(row.what) << "</td></tr>\n";
      out_ << "</table>\n<details><summary>intermediate form</summary><pre class=\"code\">" << escaped(kernel.text)
           << "</pre></details>\n";
    }
  }

  void weights() {
    out_ << "<h2 id=\"weights\">weights and states</h2>\n<div class=\"wide\"><table><tr><th>weight</th><th>in the "
            "weights file</th>"
            "<th>shape</th><th>layout</th><th class=\"n\">bytes</th><th>read by</th></tr>\n";
    for (const PageWeight &weight : facts_.weights) {
      out_ << "<tr><td>" << escaped(weight.name) << "</td><td><code>" << escaped(weight.path)
           << "</code></td><td><code>" << escaped(weight.shape) << "</code></td><td>" << escaped(weight.layout)
           << "</td><td class=\"n\">" << bytes_text(weight.bytes) << "</td><td>";
      for (int kernel : weight.kernels)
        out_ << chip(kernel) << " ";
      out_ << "</td></tr>\n";
    }
    for (const PageTensor &state : facts_.states)
      out_ << "<tr><td>" << escaped(state.what) << "</td><td class=\"soft\">state of the session</td><td><code>"
           << escaped(state.shape) << "</code></td><td>row-major</td><td class=\"n\">" << bytes_text(state.bytes)
           << "</td><td></td></tr>\n";
    out_ << "</table></div>\n";
  }

  void sources() {
    std::map<PageSource, std::vector<int>> users;
    for (size_t i = 0; i < facts_.kernels.size(); ++i)
      for (const PageSource &source : facts_.kernels[i].sources)
        users[source].push_back(i);
    out_ << "<h2 id=\"text\">model text</h2>\n<p>Beside each definition stand the kernels that compute it"
         << (facts_.roof ? ", and the time of their calls that do, with all that these compute beside it" : "")
         << ".</p>\n";
    std::vector<std::string> paths; // the model's own file first
    for (const auto &[path, lines] : lines_)
      paths.insert(path == facts_.path ? paths.begin() : paths.end(), path);
    for (const std::string &path : paths) {
      out_ << "<h3>" << escaped(path) << "</h3>\n<div class=\"wide\"><table class=\"text mono\">\n";
      for (size_t i = 0; i < lines_[path].size(); ++i) {
        auto found = users.find({path, int(i) + 1});
        out_ << "<tr" << (found != users.end() ? " class=\"used\"" : "") << "><td class=\"line\">" << i + 1
             << "</td><td>" << escaped(lines_[path][i]) << "</td><td>";
        if (found != users.end())
          for (int kernel : found->second)
            out_ << chip(kernel) << " ";
        PageSource here{path, int(i) + 1};
        out_ << measured([&](const PageStep &step) {
          return std::find(step.sources.begin(), step.sources.end(), here) != step.sources.end();
        }) << "</td></tr>\n";
      }
      out_ << "</table></div>\n";
    }
  }

  const PageFacts &facts_;
  std::map<std::string, std::vector<std::string>> lines_;
  std::ostringstream out_;
};

} // namespace

std::string page_html(const PageFacts &facts) { return Page(facts).text(); }

} // namespace heddle
