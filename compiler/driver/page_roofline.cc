// The roofline of Williams et al. 2009 (https://doi.org/10.1145/1498765.1498785): each kernel by its operations per
// byte and its operations per second, both logarithmic, under what memory and arithmetic of the machine allow.
#include "compiler/driver/page_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace heddle {

namespace {

/// All measured calls of a kernel.
struct Point {
  double flops = 0, bytes = 0, ms = 0;
  double intensity() const { return flops / bytes; }
  double gflops() const { return flops / ms / 1e6; }
};

/// A logarithmic axis: `least` at place `from`, `most` at place `to`.
struct Axis {
  double least, most, from, to;
  double operator()(double value) const {
    return from + (to - from) * (std::log(value) - std::log(least)) / (std::log(most) - std::log(least));
  }
};

std::string power_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

} // namespace

static std::map<int, Point> points_of(const PageFacts &facts) {
  std::map<int, Point> out;
  for (const PageEntry &entry : facts.entries)
    for (const PageStep &step : entry.steps)
      if (step.kernel >= 0 && step.ms > 0 && step.flops > 0 && step.moved > 0 && step.iterations > 0) {
        Point &point = out[step.kernel];
        point.flops += step.flops * double(step.iterations);
        point.bytes += step.moved * double(step.iterations);
        point.ms += step.ms;
      }
  return out;
}

std::string roofline_svg(const PageFacts &facts) {
  std::map<int, Point> points = points_of(facts);
  if (!facts.roof || points.empty())
    return "";
  double ridge = facts.roof->gflops / facts.roof->gigabytes;
  Axis x{ridge / 4, ridge * 4, 70, 700}, y{facts.roof->gflops / 10, facts.roof->gflops * 2, 300, 14};
  for (const auto &[kernel, point] : points) {
    x.least = std::min(x.least, point.intensity() / 2);
    x.most = std::max(x.most, point.intensity() * 2);
    y.least = std::min(y.least, point.gflops() / 2);
    y.most = std::max(y.most, point.gflops() * 2);
  }
  y.least = std::min(y.least, x.least * facts.roof->gigabytes);
  std::ostringstream out;
  out << "<div class=\"wide\"><svg width=\"720\" height=\"342\" role=\"img\" aria-label=\"roofline\">\n";
  for (double tick = std::pow(10, std::ceil(std::log10(x.least))); tick <= x.most; tick *= 10)
    out << "<path class=\"grid\" d=\"M" << x(tick) << " 14V300\"/><text x=\"" << x(tick)
        << "\" y=\"316\" text-anchor=\"middle\">" << power_text(tick) << "</text>\n";
  for (double tick = std::pow(10, std::ceil(std::log10(y.least))); tick <= y.most; tick *= 10)
    out << "<path class=\"grid\" d=\"M70 " << y(tick) << "H700\"/><text x=\"64\" y=\"" << y(tick) + 4
        << "\" text-anchor=\"end\">" << power_text(tick) << "</text>\n";
  out << "<text x=\"385\" y=\"336\" text-anchor=\"middle\">operations per byte</text><text x=\"14\" y=\"157\" "
         "text-anchor=\"middle\" transform=\"rotate(-90 14 157)\">Gflop/s</text>\n"
      << "<path class=\"roof\" d=\"M" << x(x.least) << " " << y(x.least * facts.roof->gigabytes) << "L" << x(ridge)
      << " " << y(facts.roof->gflops) << "H700\"/>\n";
  for (const auto &[kernel, point] : points) {
    const PageKernel &of = facts.kernels[kernel];
    out << "<a href=\"#" << of.name << "\"><circle cx=\"" << x(point.intensity()) << "\" cy=\"" << y(point.gflops())
        << "\" r=\"5\" fill=\"" << page_colour(of.kind) << "\"/><text x=\"" << x(point.intensity()) + 8 << "\" y=\""
        << y(point.gflops()) + 4 << "\">" << of.name << "</text></a>\n";
  }
  out << "</svg></div>\n";
  return out.str();
}

} // namespace heddle
