"""When an audit passes, fails, or cannot say. Start with `verdict`; `noticeable_gap` is what a pass rests on."""
