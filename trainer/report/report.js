// Draws the charts of a report with D3 3. The element #charts holds them, in the order of the page's
// figures: [{kind, series: [{title, main, facts: [{name, value}], columns, rows}]}].
(function () {
  "use strict";

  var charts = JSON.parse(document.getElementById("charts").textContent);
  var PARTS = ["model", "recompute", "copies", "collectives", "other"];
  var STRIPED = ["recompute", "collectives"];  // told apart without colour, too
  var LANES = [
    {engine: "compute", title: "compute", part: "model"},
    {engine: "d2h", title: "copies out", part: "copies"},
    {engine: "h2d", title: "copies back", part: "recompute"},
    {engine: "collectives", title: "collectives", part: "collectives"}
  ];
  var NARROW = 640, PAPER = 1000, LETTER = 6.7;  // pixels; the last: the width of a letter, about

  // Rows as objects, by column.
  function records(series) {
    return series.rows.map(function (row) {
      var record = {};
      series.columns.forEach(function (column, i) { record[column] = row[i]; });
      return record;
    });
  }

  function short(value) {
    var size = Math.abs(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1)
         : size >= 1 ? value.toFixed(2) : size > 0 ? String(Number(value.toPrecision(2))) : "0";
  }

  function fitted(text, width) {
    var letters = Math.floor(width / LETTER);
    return text.length <= letters ? text : letters < 4 ? "" : text.slice(0, letters - 2) + "..";
  }

  function canvas(parent, width, height, label) {
    return parent.append("svg").attr({viewBox: "0 0 " + width + " " + height, role: "img"})
      .attr("aria-label", label);
  }

  function fill_of(part) {
    return STRIPED.indexOf(part) < 0 ? null : "url(#stripes-" + part + ")";
  }

  // A rectangle in a part's colour; stripes lie over it where it has some.
  function block(parent, part, box) {
    var group = parent.append("g");
    group.append("rect").attr(box).attr("class", "underlay");
    group.append("rect").attr(box).attr("class", "segment mark fill-" + part)
      .classed("thin", box.width < 3);
    if (fill_of(part)) group.append("rect").attr(box).style("fill", fill_of(part));
    return group;
  }

  function add_patterns() {
    var defs = d3.select(document.body).append("svg").attr("class", "patterns")
      .attr("aria-hidden", "true").append("defs");
    STRIPED.forEach(function (part, i) {
      defs.append("pattern")
        .attr({id: "stripes-" + part, width: 6, height: 6, patternUnits: "userSpaceOnUse"})
        .attr("patternTransform", "rotate(" + (i === 0 ? 45 : 135) + ")")
        .append("line").attr({y2: 6, "class": "stripe stripe-" + part});
    });
  }

  function legend(parent, entries) {
    var entry = parent.append("div").attr("class", "legend").selectAll("span").data(entries)
      .enter().append("span");
    entry.each(function (it) {
      var swatch = d3.select(this).append("svg").attr("viewBox", "0 0 22 12");
      if (it.part) block(swatch, it.part, {width: 22, height: 12});
      else swatch.append("line").attr({x1: it.upright ? 11 : 0, x2: it.upright ? 11 : 22,
                                       y1: it.upright ? 0 : 6, y2: it.upright ? 12 : 6,
                                       "class": it.line});
    });
    entry.append("span").text(function (it) { return it.title; });
  }

  function axis(parent, scale, orient, at, size, ticks) {
    parent.append("g").attr({"class": "axis", transform: "translate(" + at[0] + "," + at[1] + ")"})
      .call(d3.svg.axis().scale(scale).orient(orient).ticks(ticks).innerTickSize(size)
        .tickPadding(6));
  }

  // ---- bars: where the seconds of each row's step go -------------------------------------------

  function draw_bar(svg, row, x, top, height) {
    var at = 0, ghost = row.fits === "no";
    var bar = svg.append("g").attr("class", ghost ? "ghost" : "");
    var label = short(row.total) + " s" + (ghost ? ", does not fit" : ""), end = x(row.total);
    PARTS.forEach(function (part) {
      if (!(row[part] > 0)) return;
      var left = x(at), width = x(at + row[part]) - left, text = short(row[part]);
      block(bar, part, {x: left, y: top, width: width, height: height})
        .append("title").text(row.row + ", " + part + ": " + row[part] + " s");
      if (width > text.length * LETTER + 8) {
        bar.append("text").attr({x: left + width / 2, y: top + height / 2 + 4, "text-anchor": "middle"})
          .attr("class", ghost ? "plain" : "on-" + part).text(text);
      }
      at += row[part];
    });
    if (row.published > row.total && x(row.published) < end + label.length * LETTER + 16) end = x(row.published);
    svg.append("text").attr({x: end + 8, y: top + height / 2 + 4}).text(label);
    if (row.published === null) return;
    ["published-edge", "published"].forEach(function (kind) {
      svg.append("line").attr({x1: x(row.published), x2: x(row.published), y1: top - 4,
                               y2: top + height + 4, "class": kind})
        .append("title").text(row.row + ", published: " + row.published + " s");
    });
  }

  function draw_bars(parent, series, width) {
    var rows = records(series), narrow = width < NARROW;
    var left = narrow ? 8 : Math.min(260, 16 + LETTER * d3.max(rows, function (r) { return r.row.length; }));
    var pitch = narrow ? 52 : 34, height = 22, bottom = rows.length * pitch + 6;
    var most = d3.max(rows, function (r) { return Math.max(r.total, r.published || 0); });
    var label = rows.some(function (row) { return row.fits === "no"; }) ? 150 : 64;
    var x = d3.scale.linear().domain([0, most]).range([left, width - label]);
    legend(parent, PARTS.map(function (part) {
      return {part: part, title: part === "copies" || part === "collectives" ? "exposed " + part : part};
    }).concat([{line: "published", upright: true, title: "published"}]));
    var svg = canvas(parent, width, bottom + 26, series.title);
    axis(svg, x, "bottom", [0, 0], bottom, narrow ? 4 : 8);
    rows.forEach(function (row, i) {
      var top = i * pitch + (narrow ? 24 : 6);
      svg.append("text").attr(narrow ? {x: 0, y: top - 7} : {x: left - 10, y: top + 15, "text-anchor": "end"})
        .text(fitted(row.row, narrow ? width : left - 10)).append("title").text(row.row);
      draw_bar(svg, row, x, top, height);
    });
  }

  // ---- memory: live bytes over the step --------------------------------------------------------

  function draw_line(svg, series, column, kind, x, y) {
    var time = 0, most = series.rows[0];
    var line = d3.svg.line().interpolate("step-after")
      .x(function (row) { return x(row[time]); }).y(function (row) { return y(row[column]); });
    svg.append("path").attr({"class": "mark line line-" + kind.toLowerCase(), d: line(series.rows)});
    series.rows.forEach(function (row) { if (row[column] > most[column]) most = row; });
    var right = x(most[time]) > x.range()[1] - 120;
    svg.append("circle").attr({"class": "dot", cx: x(most[time]), cy: y(most[column]), r: 2.5});
    svg.append("text").attr({x: x(most[time]) + (right ? -6 : 6), y: y(most[column]) - 6,
                             "text-anchor": right ? "end" : "start"})
      .text(kind + " peak " + short(most[column]));
  }

  function draw_memory(parent, series, width) {
    var left = 52, right = width - 8, top = 24, bottom = width < NARROW ? 220 : 280;
    var used = d3.max(series.rows, function (row) { return Math.max(row[1], row[2] || 0); });
    var shown = series.facts.filter(function (fact) { return fact.value < 2 * used; });
    var most = Math.max(used, d3.max(shown, function (fact) { return fact.value; }) || 0);
    var x = d3.scale.linear().domain([0, series.rows[series.rows.length - 1][0]]).range([left, right]);
    var y = d3.scale.linear().domain([0, most * 1.06]).range([bottom, top]);
    var entries = [{line: "line line-gpu", title: "GPU, GiB"}];
    if (series.columns.length > 2) entries.push({line: "line line-host", title: "pinned host, GiB per GPU"});
    legend(parent, entries.concat(series.facts.map(function (fact) {
      return {line: "capacity", title: fact.name + " " + short(fact.value) + " GiB"
                                       + (shown.indexOf(fact) < 0 ? " (above the plot)" : "")};
    })));
    var svg = canvas(parent, width, bottom + 42, series.title + ": live memory over the step");
    axis(svg, y, "left", [left, 0], -(right - left), 6);
    axis(svg, x, "bottom", [0, bottom], 4, width < NARROW ? 4 : 10);
    svg.append("text").attr({x: right, y: bottom + 38, "text-anchor": "end", "class": "soft"})
      .text("seconds of the step");
    svg.append("text").attr({x: 0, y: 12, "class": "soft"}).text("GiB");
    var area = d3.svg.area().interpolate("step-after").y0(bottom)
      .x(function (row) { return x(row[0]); }).y1(function (row) { return y(row[1]); });
    svg.append("path").attr({"class": "area-gpu", d: area(series.rows)});
    shown.forEach(function (fact) {
      svg.append("line").attr({x1: left, x2: right, y1: y(fact.value), y2: y(fact.value),
                               "class": "capacity"});
      svg.append("text").attr({x: left + 6, y: y(fact.value) - 5, "class": "soft"}).text(fact.name);
    });
    draw_line(svg, series, 1, "GPU", x, y);
    if (series.columns.length > 2) draw_line(svg, series, 2, "host", x, y);
  }

  // ---- streams: what each engine did while compute ran one layer -------------------------------

  function draw_spans(svg, spans, lane, x, top, height) {
    var first = x.range()[0], last = x.range()[1];
    spans.forEach(function (span) {
      var begin = Math.max(first, x(span.begin)), end = Math.min(last, x(span.end));
      var width = Math.max(0.8, end - begin);
      block(svg, lane.part, {x: begin, y: top, width: width, height: height})
        .append("title").text(span.name + ": " + short(span.end - span.begin) + " us, from "
                              + short(span.begin));
      var text = width > 30 ? fitted(span.name, width - 6) : "";
      if (text) {
        svg.append("text").attr({x: begin + 4, y: top + height / 2 + 4, "class": "on-" + lane.part})
          .text(text);
      }
    });
  }

  function draw_window(parent, series, window, width) {
    var narrow = width < NARROW, left = narrow ? 8 : 88, pitch = narrow ? 44 : 32, height = 24, top = 22;
    var bottom = top + LANES.length * pitch + 2;
    var spans = records(series).filter(function (span) { return span.window === window.name; });
    var milli = window.value >= 5000, scale = milli ? 1000 : 1, unit = milli ? " ms" : " us";
    var x = d3.scale.linear().domain([0, window.value]).range([left, width - 8]);
    var svg = canvas(parent, width, bottom + 26, series.title + ", " + window.name);
    svg.append("text").attr({x: 0, y: 12}).style("font-weight", "600")
      .text(window.name + ", " + short(window.value / scale) + unit);
    axis(svg, x.copy().domain([0, window.value / scale]), "bottom", [0, bottom], 4, narrow ? 4 : 10);
    LANES.forEach(function (lane, i) {
      var y = top + i * pitch + (narrow ? 18 : 4);
      svg.append("text").attr({x: 0, y: narrow ? y - 4 : y + 16, "class": "soft"}).text(lane.title);
      svg.append("line").attr({"class": "lane", x1: left, x2: width - 8, y1: y + height, y2: y + height});
      draw_spans(svg, spans.filter(function (span) { return span.engine === lane.engine; }), lane, x, y,
                 height);
    });
  }

  function draw_streams(parent, series, width) {
    series.facts.forEach(function (window) { draw_window(parent, series, window, width); });
  }

  // ---- figures ---------------------------------------------------------------------------------

  var DRAW = {bars: draw_bars, memory: draw_memory, streams: draw_streams};

  function screen_width(figure) { return Math.max(300, Math.min(1280, figure.clientWidth)); }

  function draw(figure, width) {
    var chart = charts[Number(figure.getAttribute("data-chart"))];
    var parent = d3.select(figure).select(".drawing");
    parent.selectAll(".series").remove();
    chart.series.forEach(function (series, i) {
      if (i !== chart.chosen && !series.main) return;
      var element = parent.append("div")
        .attr("class", "series" + (i === chart.chosen ? " chosen" : "") + (series.main ? " main" : ""));
      element.append("h4").text(series.title);
      DRAW[chart.kind](element, series, width);
    });
  }

  function add_choice(figure, chart) {
    chart.chosen = 0;
    chart.series.some(function (series, i) { chart.chosen = i; return series.main; });
    if (chart.series.length < 2) return;
    var select = d3.select(figure).insert("label", ".drawing").text("Row").append("select");
    select.selectAll("option").data(chart.series).enter().append("option")
      .text(function (series) { return series.title; });
    select.property("selectedIndex", chart.chosen).on("change", function () {
      chart.chosen = this.selectedIndex;
      draw(figure, screen_width(figure));
    });
  }

  var figures = Array.prototype.slice.call(document.querySelectorAll("figure[data-chart]"));
  add_patterns();
  function draw_all() {
    figures.forEach(function (figure) { draw(figure, screen_width(figure)); });
  }
  figures.forEach(function (figure, i) { add_choice(figure, charts[i]); });
  draw_all();

  var width = window.innerWidth, waiting = 0;
  window.addEventListener("resize", function () {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw_all, 100);
  });

  // Print shows what is folded on a screen, and drawings that fit its page, whatever the window's width.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (element) { element.open = true; });
    figures.forEach(function (figure) { draw(figure, PAPER); });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (element) { element.open = false; });
    draw_all();
  });
})();
